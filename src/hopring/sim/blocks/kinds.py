"""The table of blocks that the campaign runs: a row is a module of this package."""

from typing import Final

from hopring.sim.block_cluster import BlockKind
from hopring.sim.blocks.calls import CALLS
from hopring.sim.blocks.flush import FLUSH
from hopring.sim.blocks.handlers import HANDLERS
from hopring.sim.blocks.kept_values import VALUES
from hopring.sim.blocks.locks import LOCKS
from hopring.sim.blocks.log import LOG
from hopring.sim.blocks.minimum import MINIMUM
from hopring.sim.blocks.state import STATE

KINDS: Final[dict[str, BlockKind]] = {
    kind.name: kind for kind in (CALLS, FLUSH, LOCKS, STATE, LOG, HANDLERS, MINIMUM, VALUES)
}
