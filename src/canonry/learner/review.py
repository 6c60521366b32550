"""Accept, refuse and undo learned rules: an accepted rule becomes a new overrides digest and a rekey (contract L5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.core.configured_overrides import remember_overrides
from canonry.core.overrides import parse_overrides
from canonry.core.presets import policy
from canonry.errors import LearnedRuleConflict, RekeyUnfinished
from canonry.learner.export_rules import make_overrides
from canonry.learner.proposal_store import Proposal, ProposalState, ProposalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.rekey.bookmark_rekey import BookmarkRekeys
    from canonry.rekey.bookmark_rekey_store import BookmarkRekey
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
        pinned = await self._rekeys.store.get_policy()
        return await self._rekeys.plan(await self._make_policy(proposal_id, pinned))

    async def accept(self, proposal_id: int) -> Proposal:
        """Add the rule to the overrides of the policy of bookmarks, and start the rekey to it."""
        proposal = await self.store.get(proposal_id)
        if proposal.state is ProposalState.ACCEPTED:
            return proposal
        pinned = await self._rekeys.store.get_policy()
        to_policy = await self._make_policy(proposal_id, pinned)
        if to_policy == pinned:
            rekey = await self._find_rekey(proposal_id, to_policy)
            proposal = await self.store.get(proposal_id)
            if proposal.state is ProposalState.ACCEPTED:
                return proposal  # by a call at the same time
        else:
            try:
                rekey = await self._rekeys.start(to_policy, from_policy=pinned)
            except RekeyUnfinished:
                if await self._rekeys.store.get_policy() == pinned:
                    raise
                return await self.accept(proposal_id)  # this rule or another one was accepted at the same time
        return await self.store.decide(
            proposal_id, ProposalState.ACCEPTED, self._clock(), rekey_id=rekey.id if rekey else None, policy=to_policy
        )

    async def refuse(self, proposal_id: int) -> Proposal:
        """Remember that the rule is wrong: it is not proposed again. An accepted one must be undone first."""
        return await self.store.decide(proposal_id, ProposalState.REFUSED, self._clock())

    async def undo(self, proposal_id: int) -> Proposal:
        """Take a decision back; the bookmarks that an accepted rule moved become what they were."""
        proposal = await self.store.get(proposal_id)
        if proposal.state is ProposalState.ACCEPTED and proposal.rekey_id is not None:
            rekey = await self._rekeys.store.get(proposal.rekey_id)
            if rekey.undo_started_at is None:  # `canonry rekey --undo` or an interrupted call may have undone it
                pinned = await self._rekeys.store.get_policy()
                if pinned != proposal.policy:
                    raise LearnedRuleConflict(f"Rules were accepted after this one. Undo those first: {pinned}.")
                await self._rekeys.start_undo(rekey.id)
        return await self.store.decide(proposal_id, ProposalState.PROPOSED, self._clock())

    async def _find_rekey(self, proposal_id: int, to_policy: str) -> BookmarkRekey | None:
        """Return the rekey that added exactly this rule, in a call at the same time or in one that was interrupted."""
        for rekey in await self._rekeys.store.list_latest():
            if rekey.to_policy != to_policy or rekey.undo_started_at is not None:
                continue
            if rekey.from_policy not in {"", to_policy}:
                await self._rekeys.store.load_overrides(rekey.from_policy)
                if await self._make_policy(proposal_id, rekey.from_policy) == to_policy:
                    return rekey
        return None

    async def _make_policy(self, proposal_id: int, base_id: str) -> str:
        """Return the id of a policy with the rule added to its overrides."""
        entries = await self.store.get_entries(proposal_id)
        base = policy(base_id)
        text = make_overrides([entries], base.overrides.text if base.overrides else None)
        overrides = parse_overrides(text, "learned rules")
        remember_overrides(overrides)
        return base.without_overrides().with_overrides(text, file="learned rules").id
