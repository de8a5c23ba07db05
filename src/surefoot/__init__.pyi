# The public names of surefoot, each with the module that defines it. surefoot/__init__.py reads this list.

from surefoot import confidence as confidence
from surefoot.analysis.optimum import Benchmark as Benchmark
from surefoot.analysis.optimum import offline_optimum as offline_optimum
from surefoot.analysis.optimum import safest_strategy as safest_strategy
from surefoot.environments import costs as costs
from surefoot.environments import losses as losses
from surefoot.environments import scenarios as scenarios
from surefoot.environments.scenario import Scenario as Scenario
from surefoot.environments.scenarios import Table as Table
from surefoot.policies.base import Contradiction as Contradiction
from surefoot.policies.base import Policy as Policy
from surefoot.policies.colb import COLB as COLB
from surefoot.policies.constrained_exp3 import SafeExp3 as SafeExp3
from surefoot.policies.constrained_exp3 import SoftExp3 as SoftExp3
from surefoot.policies.doubly_optimistic import DoublyOptimistic as DoublyOptimistic
from surefoot.policies.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from surefoot.policies.exp3 import Exp3 as Exp3
from surefoot.policies.exp3 import Exp3IX as Exp3IX
from surefoot.policies.lincon_ts import LinConTS as LinConTS
from surefoot.policies.log_barrier import LogBarrier as LogBarrier
from surefoot.policies.opb import OPB as OPB
from surefoot.policies.optimistic_lp import OptimisticLP as OptimisticLP
from surefoot.policies.optimistic_lp import SafeOptimisticLP as SafeOptimisticLP
from surefoot.policies.pessimistic_optimistic import PessimisticOptimistic as PessimisticOptimistic
from surefoot.policies.primal_dual import PrimalDual as PrimalDual
from surefoot.policies.projection import Projection as Projection
from surefoot.policies.projection import project as project
from surefoot.policies.queue_primal_dual import QueuePrimalDual as QueuePrimalDual
from surefoot.policies.solb import SOLB as SOLB
from surefoot.policies.thompson import ThompsonSampling as ThompsonSampling
from surefoot.policies.tsallis_inf import TsallisINF as TsallisINF
from surefoot.policies.ucb1 import UCB1 as UCB1
from surefoot.policies.yardsticks import AlwaysSafe as AlwaysSafe
from surefoot.policies.yardsticks import Oracle as Oracle
from surefoot.problem import Decision as Decision
from surefoot.problem import EmptySafeSet as EmptySafeSet
from surefoot.problem import Infeasible as Infeasible
from surefoot.problem import Problem as Problem
from surefoot.problem import SafeStrategy as SafeStrategy
from surefoot.reporting.report import write_report as write_report
from surefoot.rules import RuleError as RuleError
from surefoot.simulation.run import Run as Run
from surefoot.simulation.simulate import simulate as simulate

__all__: list[str]
__version__: str
