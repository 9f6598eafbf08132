"""The engine: a model, the runtime's memory and kgen's kernels as one thing that turns prompts into text.

    Engine          submit, step, stream, abort              engine.py over memory.py, batch.py
    Model           what it asks of a network                model.py; integrations/decoder.py is one
    calibrate       scales of an 8-bit KV cache, from text   calibration.py
    Kernels         what it asks of kernels                  kernels.py: those of kgen.ops
    SamplingParams  greedy, sampled, beam search             params.py; sampling.py, tracks.py, beams.py
    TextStream      text from tokens, one by one             text.py
    Conversation    chats whose turns build on each other    chat.py, sessions.py

A step is one forward pass over the rows of a plan: prefill chunks of any length and decode rows beside each
other. In each layer the new keys and values go to their pages; the chunks attend through extend_attention,
behind whatever is in memory of their prompts, the decode rows through paged_attention. Logits are computed
of rows that are sampled from, no others.
"""

from kgen.engine.calibration import calibrate
from kgen.engine.chat import Chat, Conversation, TokenChat, Tokenizer, decoder
from kgen.engine.chatfile import Script, read_chats
from kgen.engine.counting import counted
from kgen.engine.engine import Engine
from kgen.engine.kernels import Kernels, OpsKernels
from kgen.engine.memory import EngineConfig
from kgen.engine.model import Attend, Model
from kgen.engine.params import SamplingParams
from kgen.engine.request import Completion, Event, GenerateRequest, RequestResult, TokenEvent
from kgen.engine.sessions import Turn, converse
from kgen.engine.stats import EngineStats
from kgen.engine.text import Decode, TextStream

__all__ = [
    "Attend",
    "Chat",
    "Completion",
    "Conversation",
    "Decode",
    "Engine",
    "EngineConfig",
    "EngineStats",
    "Event",
    "GenerateRequest",
    "Kernels",
    "Model",
    "OpsKernels",
    "RequestResult",
    "SamplingParams",
    "Script",
    "TextStream",
    "TokenChat",
    "TokenEvent",
    "Tokenizer",
    "Turn",
    "calibrate",
    "converse",
    "counted",
    "decoder",
    "read_chats",
]
