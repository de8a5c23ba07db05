"""The claims of the paper, our own, and those about live experiments; each with its trial, and mutations to fail it."""

from __future__ import annotations

from surefoot.policies.led import FEW_SHARE
from surefoot.rules import RuleError, hint, shown
from surefoot.theory import company, implicit, live, mutations, trials
from surefoot.theory.claims import Claim, power
from surefoot.theory.trials import DELTA


def refuted_if(probability: float, runs: tuple[int, int]) -> str:
    """The words for a test of "fails with at most this probability"."""
    quick, full = (power(n, probability) for n in runs)
    return (
        f"how many fail, if each may fail with probability {probability:g}; power {quick:.2f} (quick) and {full:.2f} "
        "(full) if failures are twice as likely"
    )


PATHS = "none may fail; power 0.95 against what fails on 26 % (quick) or 3 % (full) of the paths"
FITTED = (
    "Student's 99.9 % interval over the runs must lie in that range; power 0.999 against a slope that is outside by "
    "twice the half-width of the interval"
)
SERVED = "g^T x <= alpha for every strategy x that is served while the upper bounds hold"
ROUTED = "Live, limit 0.3, costs 0.5 and 0.1"
PARTS = 2.0 / FEW_SHARE  # c of docs/theory/led.md, on families with few arms and guardrails
MEAN = "Student's 99.8 % interval; power 0.999 against what is wrong by twice its half-width"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Lemma 1", "With probability 1 - delta every true mean cost is within its confidence bounds, in all rounds.",
        "three arms, two guardrails with Bernoulli costs, T = 2,000, COLB", "",
        refuted_if(DELTA, (300, 2_000)), trials.try_bounds, (300, 2_000), {"radius times 0.1": mutations.NarrowRadius},
    ),
    Claim(
        "Lemma 2", "While the bounds hold, no safe set is empty, and all of them contain the truncated benchmark.",
        "three arms, the best of them right on the threshold, T = 5,000, COLB",
        "(g^ - beta)^T u <= alpha + K/T in all rounds of the clean event, u = (1 - K/T) x* + 1/T",
        refuted_if(DELTA, (300, 2_000)), trials.try_inclusion, (300, 2_000),
        {"radius times 0.1": mutations.NarrowRadius},
    ),
    Claim(
        "Theorem 1",
        "The total violation of COLB is at most K + 12 sqrt(K T ln(T K m / delta)) + 2 sqrt(2 T ln(1 / delta)).",
        "the best strategy right on the threshold, T = 20,000",
        "[g^T x_t - alpha]^+ <= K/T + 2 beta_{t-1}^T x_t in all rounds of the clean event",
        refuted_if(2 * DELTA, (60, 400)), trials.try_violation, (60, 400),
        {"projection skipped": mutations.Unprojected},
    ),
    Claim(
        "Theorem 1, growth", "The violation of COLB grows like the square root of the horizon.",
        "the best strategy right on the threshold, T = 10,000 to 300,000", "",
        f"log-log slope in [0.3, 0.7]; {FITTED}", trials.try_growth, (6, 30),
        {"projection skipped": mutations.Unprojected},
    ),
    Claim(
        "Lemma 5",
        "Mirror descent with increasing rates pays at most O(K ln T / eta + eta losses) - h^T u / (10 eta ln T).",
        "two guardrails that hold the proposal back from the start, T = 1,500",
        "each step against D(u, x_t) - D(u, x_{t+1}) + eta (x l^)^2 / 2, and their sum; caps and rates as in the proof",
        PATHS, trials.try_descent, (10, 100),
        {"estimate doubled": mutations.FedTwice, "proposal stuck": mutations.Stuck},
    ),
    Claim(
        "Theorem 2",
        "The regret of COLB is at most what mirror descent pays, two martingales within Freedman's bounds, and K.",
        "the best arm safe by itself, loss 0.05 a round, T = 2,000",
        "Lemma 5 for the benchmark, on the clean event", refuted_if(4 * DELTA, (60, 400)), trials.try_regret, (60, 400),
        {"proposal stuck": mutations.Stuck},
    ),
    Claim(
        "Theorem 2, small losses",
        "At a fixed horizon the regret of COLB grows like the square root of the benchmark's loss.",
        "the best arm safe by itself, L* = T/256 to T/4, T = 20,000, doubling rate", "",
        f"log-log slope in [0.3, 0.7]; {FITTED}", trials.try_small_losses, (10, 50),
        {"rate of the worst case": "worst-case rate"},
    ),
    Claim(
        "Remark 3", "Restarts at half the rate replace knowing the benchmark's loss in advance.",
        "the best arm safe by itself, loss 0.3 a round, T = 3,000, COLB and SOLB with the doubling rate",
        "Lemma 5 in every epoch, from the analytic centre of the safe set; epochs end when their budget is spent",
        PATHS, trials.try_doubling, (10, 100),
        {"estimate doubled": mutations.FedTwice, "no restarts": mutations.NeverRestarts,
         "restarts too early": mutations.RestartsEarly},
    ),
    Claim(
        "Theorem 3", "With probability 1 - delta SOLB plays a safe strategy in every round.",
        "the best strategy right on the threshold, two guardrails, margin 0.05, T = 3,000",
        "g^T x_t <= alpha in all rounds of the clean event",
        refuted_if(DELTA, (200, 2_000)), trials.try_safety, (200, 2_000),
        {"safe weight 0": mutations.Unmixed, "lower bounds used": mutations.MixedByLower},
    ),
    Claim(
        "Algorithm 2, line 21", "The mixture is a strategy, and keeps every guardrail at the upper bounds.",
        "two guardrails, one of them far below the safe strategy's cost, T = 2,000",
        "0 <= gamma <= max (1 - alpha) / (1 - theta), x >= (1 - gamma) x~, gamma theta_i + (1 - gamma) c_i <= alpha_i",
        PATHS, trials.try_mixing, (10, 100),
        {"maximum over all guardrails": mutations.LiteralMaximum, "lower bounds used": mutations.MixedByLower},
    ),
    Claim(
        "Lemma 3",
        "The safety regret of SOLB is at most 43 (K / rho) ln(T K m / delta) safety complexity, plus heavy rounds.",
        "the best strategy right on the threshold, margin 0.3, T = 20,000",
        "gamma <= (2 beta^T x~ + K/T) / rho in all rounds of the clean event; few wide radii",
        refuted_if(3 * DELTA, (25, 300)), trials.try_safety_regret, (25, 300),
        {"projection skipped": mutations.Unprojected},
    ),
    Claim(
        "Safety regret, ours",
        "The safety regret of SOLB is at most safety complexity times sqrt(32 ln(T K m / delta) M + 2 K^2 / T) / rho.",
        "the best strategy right on the threshold, margin 0.3, T = 20,000",
        "gamma^2 <= (8 sum of beta^2 x + 2 (K/T)^2) / rho^2 in all rounds of the clean event",
        refuted_if(2 * DELTA, (30, 300)), trials.try_sharp_safety_regret, (30, 300),
        {"safe weight 1": mutations.AlwaysSafe},
    ),
    Claim(
        "Lemma 3, gap", "Safety regret is linear in the gap of the safe strategy, and 0 if there is no gap.",
        "the safe strategy loses more by the same amount in every round, 0.05 to 0.4, T = 5,000", "",
        f"log-log slope in [0.8, 1.2], and 0 at gap 0; {FITTED}", trials.try_gap, (40, 200),
        {"safe strategy given up as it loses": mutations.GivesUp},
    ),
    Claim(
        "Lemma 4",
        "The learning regret of SOLB is that of Theorem 2, with the losses and the rate divided by the margin.",
        "the best arm safe by itself, T = 3,000",
        "each step of mirror descent; the weighted sum as printed, though its proof has a gap",
        refuted_if(4 * DELTA, (25, 300)), trials.try_learning_regret, (25, 300),
        {"estimator divided by the proposal": mutations.DividedByProposal, "proposal stuck": mutations.Stuck},
    ),
    Claim(
        "Weighted estimates",
        "With estimates multiplied by w = 1 - gamma, the bound on the learning regret of SOLB is free of the margin.",
        "the best arm safe by itself, T = 3,000",
        "w x~ l^ <= l and w l^ <= h in all rounds; each step; Lemma 5 for the weighted losses, on the clean event",
        refuted_if(3 * DELTA, (25, 300)), trials.try_weighted, (25, 300),
        {"estimates not weighted": "not weighted", "estimator divided by the proposal": mutations.DividedByProposal,
         "proposal stuck": mutations.Stuck},
    ),
    Claim(
        "Theorem 4", "The regret of SOLB is bounded by safety complexity plus bandit complexity, up to factors.",
        "the best arm safe by itself, T = 3,000",
        "regret <= sqrt(sum gamma^2) S + Lemma 5 + both martingales + K, on the clean event",
        refuted_if(6 * DELTA, (25, 300)), trials.try_theorem_4, (25, 300), {"proposal stuck": mutations.Stuck},
    ),
    Claim(
        "Corollary",
        "Over small-loss balls, the mean regret of SOLB is bounded by safety complexity plus bandit complexity.",
        "i.i.d. and switching losses, T = 3,000, delta = 1 / T", "",
        "mean of safety regret less sqrt(sum gamma^2) S, and of learning regret less Lemma 5 and K (the martingales "
        f"have mean 0); {MEAN}",
        trials.try_corollary, (25, 200), {"proposal stuck": mutations.Stuck},
    ),
    Claim(
        "Theorem 5", "A policy that is safe on nu_1 plays the safe arm often on nu_2 and nu_3, and pays regret for it.",
        "the lower-bound family, T = 10,000, omega 0.1, gap 0.2, margin 0.2", "",
        f"safe on nu_1; mean rounds of the safe arm and the larger mean regret at least the bounds; {MEAN}",
        trials.try_lower_bound, (60, 500), {"safe weight 0": mutations.Unmixed},
    ),
    Claim(
        "Theorem R, ours",
        'Preset "guaranteed" pays at most psi(u) / eta and 0.78 eta (x~ z)^2 a round against the benchmark.',
        "the best strategy right on the threshold, T = 3,000",
        "eta x~ z >= -1/2 in all rounds; the sum against psi(u) / eta and the squares, while the lower bounds hold",
        PATHS, company.try_guaranteed, (10, 100), {"baseline not cut": mutations.BaselineNotCut},
    ),
    Claim(
        "Theorem L, follower",
        'Preset "led" pays no more than Theorem R says for its follower, batch by batch, and plays its share of that.',
        "the best strategy right on the threshold, T = 3,000",
        f"the sum of Theorem R in batches of at most 16 rounds; x >= pi x~ with pi >= w / {PARTS:g}; "
        f"gamma^2 <= ({2.25 * PARTS:g} C sigma + 2 (K/T)^2) / rho^2",
        PATHS, company.try_led, (10, 100),
        {"baseline not cut": mutations.BaselineNotCut, "the program takes all": mutations.ProgramTakesAll},
    ),
    Claim(
        "Theorem L, shares",
        "Shares lose at most 4.04 L + 2.51 sqrt(L (1 + S)) + 0.78 against either plan with the proposal in it.",
        "forced draws: one at a share of 1e-4 and then 3,000 bad ones; plans, arms and losses at random",
        "sum of c^T (q - u) against the bound",
        PATHS, company.try_shares, (10, 100), {"exponential weights": "exponential weights"},
    ),
    Claim(
        "Theorem L, squares",
        "On average squared steps of the shares add up to at most 5.6 a round, of the proposal to 2 (1 / pi + 16).",
        "batches of 16 rounds; losses that keep two shares level; a proposal that stays, with pi = 1/2", "",
        f"mean of S / n and Q / n over the runs; {MEAN}", company.try_squares, (10, 100),
        {"batches of 128 rounds": "batches of 128 rounds", "shares left out": "shares left out"},
    ),
    Claim(
        "Theorem H, chance",
        "Estimates with implicit exploration are seldom far above the losses, and on average not far below.",
        "30 rounds a run, drawn at random: plans, shares, many of them tiny, losses and v",
        "E exp(2 v z) <= exp(2 v l) for every arm and E exp(2 v c) <= exp(2 v l^T y) for every plan; "
        "l^T x~ - E z^T x~ <= v K / pi and l^T x - E q^T c <= 3 v; over all draws of a round",
        PATHS, implicit.try_chance, (10, 100), {"without v": "without v", "with a baseline": "with a baseline"},
    ),
    Claim(
        "Live, late", "With probability 1 - delta every strategy that is served is safe, however late feedback comes.",
        f"{ROUTED}, misses reported 100 rounds late and hits at once, 300 rounds",
        SERVED, refuted_if(DELTA, (300, 600)), live.try_late, (300, 600),
        {"learnt in the order of arrival": mutations.ArrivalOrder},
    ),
    Claim(
        "Live, lost", "With probability 1 - delta every strategy that is served is safe, whatever feedback is lost.",
        f"{ROUTED}, feedback on 80 % of the misses and 5 % of the hits lost, 300 rounds",
        SERVED, refuted_if(DELTA, (300, 600)), live.try_lost, (300, 600),
        {"time-outs dropped": mutations.DropsTimeouts},
    ),
    Claim(
        "Live, repeated",
        "With probability 1 - delta every strategy that is served is safe, however often feedback is delivered.",
        f"{ROUTED}, feedback delivered 6 times, 300 rounds",
        SERVED, refuted_if(DELTA, (300, 600)), live.try_repeated, (300, 600),
        {"learnt again": mutations.LearnsAgain},
    ),
    Claim(
        "Live, unavailable",
        "While the upper bounds hold, every strategy that is served is safe, even if arms are missing.",
        f"{ROUTED}, a cheap arm, 0.02, that is missing in half of the rounds; others in 20 % and 10 %, 400 rounds",
        SERVED,
        "none may fail; power 0.95 against what fails on 10 % (quick) or 1.5 % (full) of the clean paths",
        live.try_unavailable, (30, 200),
        {"the other arms scaled up": mutations.ScalesUp},
    ),
    Claim(
        "Live, alarms", "A drift above the limit, or a baseline that costs more than stated, soon leads to a hold.",
        "limit 0.1, all costs rise from 0.07 or less to 0.3; limit 0.3, a baseline of 0.6 stated as 0.1",
        "after the alarm the baseline is served",
        "a run fails if no alarm comes in the time that holds with probability 0.9, or one before the drift; "
        + refuted_if(0.1, (40, 300)),
        live.try_alarms, (40, 300),
        {"no watch": mutations.NeverAlarms, "alarms do not hold": mutations.NeverHolds},
    ),
    Claim(
        "Live, false alarms", "The watch raises at most one false alarm in `alarm_every` decisions on average.",
        "limit 0.3, costs 0.5 and 0.1, the first arm reports once in 400 rounds, 800 rounds, alarm_every 16,000", "",
        "a run fails if there is an alarm; " + refuted_if(0.1, (40, 300)), live.try_false_alarms, (40, 300),
        {"watched in the order of release": mutations.WatchesReleased},
    ),
)  # fmt: skip
"""Every lemma, theorem and corollary, our own, and those of docs/theory/live.md."""


def claim(name: str) -> Claim:
    """The claim of this name."""
    return claims_of(name)[0]


def claims_of(name: str) -> list[Claim]:
    """The claim of this name, or all that begin with it and a comma; capital letters do not matter.

    Examples
    --------
    >>> [claim.name for claim in claims_of("Theorem L")]
    ['Theorem L, follower', 'Theorem L, shares', 'Theorem L, squares']
    >>> [claim.name for claim in claims_of("theorem 2")]
    ['Theorem 2']
    """
    wanted, found = name.casefold(), [claim.name for claim in CLAIMS]
    parts = [one for one in CLAIMS if one.name.casefold() == wanted]
    parts = parts or [one for one in CLAIMS if one.name.casefold().startswith(f"{wanted},")]
    if not parts:
        listed = ", ".join(f'"{one}"' if "," in one else one for one in found)
        raise RuleError("claim", f"be one of {listed}", name, f"{shown(name)}{hint(name, found)}")
    return parts
