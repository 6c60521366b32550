"""Accept, refuse and undo learned rules: an accepted rule becomes a new overrides digest and a rekey (contract L5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.core.configured_overrides import remember_overrides
from canonry.core.overrides import parse_overrides
from canonry.core.presets import policy
from canonry.errors import LearnedRuleConflict
from canonry.learner.export_rules import make_overrides
from canonry.learner.proposal_store import Proposal, ProposalState, ProposalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.rekey.bookmark_rekey import BookmarkRekeys
    from canonry.rekey.key_counts import RekeySummary
    from canonry.store.database import Database


class Review:
    """Decisions about the learned rules of a store, whose bookmarks are rekeyed."""

    def __init__(self, database: Database, rekeys: BookmarkRekeys, clock: Callable[[], datetime]) -> None:
        self.store = ProposalStore(database)
        self._rekeys = rekeys
        self._clock = clock

    async def preview(self, proposal_id: int) -> RekeySummary:
        """Return what accepting a rule would change; nothing is changed."""
        return await self._rekeys.plan(await self._make_policy(proposal_id))

    async def accept(self, proposal_id: int) -> Proposal:
        """Add the rule to the overrides of the policy of bookmarks, and start the rekey to it."""
        proposal = await self.store.get(proposal_id)
        if proposal.state is ProposalState.ACCEPTED:
            return proposal
        to_policy = await self._make_policy(proposal_id)
        rekey = await self._rekeys.start(to_policy)
        return await self.store.decide(
            proposal_id, ProposalState.ACCEPTED, self._clock(), rekey_id=rekey.id, policy=to_policy
        )

    async def refuse(self, proposal_id: int) -> Proposal:
        """Remember that the rule is wrong: it is not proposed again. An accepted one must be undone first."""
        proposal = await self.store.get(proposal_id)
        if proposal.state is ProposalState.ACCEPTED:
            raise LearnedRuleConflict("The rule is accepted. Undo it first.")
        return await self.store.decide(proposal_id, ProposalState.REFUSED, self._clock())

    async def undo(self, proposal_id: int) -> Proposal:
        """Take a decision back; the bookmarks that an accepted rule moved become what they were."""
        proposal = await self.store.get(proposal_id)
        if proposal.state is ProposalState.ACCEPTED and proposal.rekey_id is not None:
            pinned = await self._rekeys.store.get_policy()
            if pinned != proposal.policy:
                raise LearnedRuleConflict(f"Rules were accepted after this one. Undo those first: {pinned}.")
            await self._rekeys.start_undo(proposal.rekey_id)
        return await self.store.decide(proposal_id, ProposalState.PROPOSED, self._clock())

    async def _make_policy(self, proposal_id: int) -> str:
        """Return the id of the pinned policy with the rule added to its overrides."""
        entries = await self.store.get_entries(proposal_id)
        base = policy(await self._rekeys.store.get_policy())
        text = make_overrides([entries], base.overrides.text if base.overrides else None)
        overrides = parse_overrides(text, "learned rules")
        remember_overrides(overrides)
        return base.without_overrides().with_overrides(text, file="learned rules").id
