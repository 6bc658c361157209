"""Latency profiles: when the first token and each later one is due, as real hardware would have it.

The figures are the source material's for Llama-3.1-70B FP8, by number of H100 (targets.md, section 1):

- Four (`h100-tp4`). First token: 150 ms below 4k tokens of context, 220 ms at 8k, 180 ms in the second turn of a
  question and 200 ms from the third on; in between, and beyond 8k, on the straight line. Turns that call tools end
  5 ms after it: the source's totals (150 + 50 for the tool + 300 = 500 ms for one iteration) leave no more.
- A final synthesis takes 300 to 450 ms in all in a second turn, so its tokens take 120 ms for a short answer (40
  tokens) and 270 ms for a long one (640), on the straight line between. That is 1 ms a token and less, faster than the
  hardware decodes: the source's totals are kept, not its physics. In a first turn it takes 20 ms less, for naive RAG is
  said to take 300 ms in all, of which 20 ms are the search.
- Two (`h100-tp2`). First token 250 ms, 300 ms at 8k, 280 and 295 ms in the second and third turn; tokens as much slower
  as the first one.
- What is due within 10 ms comes in one event, as from hardware that needs about as long for a token.
- `instant`: everything at once, for tests of anything but time.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Times of one kind of hardware, in seconds. `scale` is that of decoding."""

    first_token: float
    first_token_at_8k: float
    second_turn: float
    third_turn: float
    scale: float

    def time_to_first_token(self, prompt_tokens: int, turn: int) -> float:
        """Seconds from the arrival, without those in the queue.

        `turn` counts the model's earlier turns for the same question.
        """
        slope = (self.first_token_at_8k - self.first_token) / 4096
        by_length = self.first_token + slope * max(0, prompt_tokens - 4096)
        by_turn = (self.first_token, self.second_turn, self.third_turn)[min(turn, 2)]
        return max(by_length, by_turn)

    def decode(self, tokens: int, *, calls_tools: bool, turn: int) -> float:
        """Seconds from the first token to the last."""
        if calls_tools:
            return 0.005 * self.scale
        share = min(1.0, max(0, tokens - 40) / 600)
        return (0.120 + 0.150 * share - (0.020 if turn == 0 else 0)) * self.scale


_FOUR = Profile(0.150, 0.220, 0.180, 0.200, 1.0)
_TWO = Profile(0.250, 0.300, 0.280, 0.295, 0.250 / 0.150)
PROFILES = {"instant": Profile(0, 0, 0, 0, 0), "h100-tp4": _FOUR, "h100-tp2": _TWO}
