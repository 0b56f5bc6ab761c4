import { RULES } from '../../plugins/cluster/election/rules.js'
import type { Changes } from './world.js'

/** The election algorithm without one of its rules. */
export interface Mutant {
  readonly name: string
  /** The missing rule. */
  readonly without: string
  /** The play that fails without the rule. */
  readonly shownBy: string
  readonly changes: Changes
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'trusts-own-silence',
    without: 'a node that was paused suspects itself first',
    shownBy: 'a follower that was paused does not elect itself',
    changes: { rules: { stalled: () => false } }
  },
  {
    name: 'no-stickiness',
    without: 'a node that hears a master supports no other',
    shownBy: 'one cut link causes no election, majority',
    changes: { rules: { sticksToMaster: () => false } }
  },
  {
    name: 'no-pre-vote',
    without: 'no node becomes a candidate while a peer hears a master',
    shownBy: 'one cut link causes no election, quorum 1',
    changes: { rules: { mayCampaign: () => true } }
  },
  {
    name: 'no-denial',
    without: 'a named master ends the pre-vote',
    shownBy: 'one cut link causes no election, quorum 1',
    changes: { rules: { denies: () => false } }
  },
  {
    name: 'ballot-by-id',
    without: 'the pre-vote with the newest log wins',
    shownBy: 'the node with the newest log is elected, not the one with the greatest id',
    changes: {
      rules: {
        ballotOrder: (a, b) => RULES.ballotOrder({ ...a, term: 0, seq: 0 }, { ...b, term: 0, seq: 0 })
      }
    }
  },
  {
    name: 'silent-on-old-ballot',
    without: 'a pre-vote of an old term is answered with the term',
    shownBy: 'a pre-vote of an old term is answered with the term',
    changes: { rules: { answersOldBallot: () => false } }
  },
  {
    name: 'two-votes',
    without: 'one vote per term',
    shownBy: 'one vote per term',
    changes: { rules: { mayVote: () => true } }
  },
  {
    name: 'stale-claimant',
    without: 'a candidate\'s log is at least as new as its voters\' logs',
    shownBy: 'a candidate that lacks an entry is refused, majority',
    changes: { rules: { upToDate: () => true } }
  },
  {
    name: 'trusts-failed-disk',
    without: 'a failed write is no promise',
    shownBy: 'a failing disk gives no vote',
    changes: { rules: { writeCounts: () => true } }
  },
  {
    name: 'unwritten-vote',
    without: 'the promise is on disk before the answer leaves',
    shownBy: 'one vote per term, over a restart',
    changes: { forgetful: true }
  },
  {
    name: 'one-vote',
    without: 'a majority elects',
    shownBy: 'a candidate without an answer is not elected, majority',
    changes: { rules: { voteResult: (state) => RULES.voteResult({ ...state, needed: 1 }) } }
  },
  {
    name: 'deaf-to-refusal',
    without: 'with quorum 1 any refusal ends a candidacy',
    shownBy: 'one refusal ends a candidacy, quorum 1',
    changes: { rules: { voteResult: (state) => RULES.voteResult({ ...state, refused: false }) } }
  },
  {
    name: 'keep-claim',
    without: 'accepting a master ends a candidacy',
    shownBy: 'a candidate that accepted a master does not become one',
    changes: { rules: { candidacyStands: () => true } }
  },
  {
    name: 'follows-anyone',
    without: 'a master below the promise is refused',
    shownBy: 'a voter of a new master acknowledges nothing to the old one',
    changes: { rules: { mayFollow: () => true } }
  },
  {
    name: 'silent-refusal',
    without: 'a refused master gets the reason',
    shownBy: 'two masters meet, the old one has more followers',
    changes: { rules: { answersRefused: () => false } }
  },
  {
    name: 'roll-back',
    without: 'control data never goes back',
    shownBy: 'an append that was overtaken does not shorten the log',
    changes: { rules: { mayReplace: () => true } }
  },
  {
    name: 'ack-at-once',
    without: 'enough nodes hold what is acknowledged',
    shownBy: 'the smaller side of a cut has no master and acknowledges nothing, majority',
    changes: { rules: { heldByEnough: () => true } }
  },
  {
    name: 'any-message-verifies',
    without: 'only an answer to the newest probe confirms a master',
    shownBy: 'a master that was paused probes until a node answers, quorum 1',
    changes: { rules: { verifies: () => true } }
  },
  {
    name: 'unsure-acts',
    without: 'an unconfirmed master enters nothing',
    shownBy: 'a master that was paused enters nothing before it is confirmed',
    changes: { rules: { mayActAsMaster: () => true } }
  },
  {
    name: 'no-probe',
    without: 'a master that was paused probes until a node answers',
    shownBy: 'a master that was paused probes until a node answers, quorum 1',
    changes: { rules: { trustsSilence: () => true } }
  },
  {
    name: 'unsure-stays',
    without: 'an unconfirmed master yields',
    shownBy: 'a master that was paused yields to another, whoever followed it then',
    changes: { rules: { staysMaster: (meeting) => RULES.staysMaster({ ...meeting, verified: true }) } }
  },
  {
    name: 'never-yields',
    without: 'of two masters one yields',
    shownBy: 'two masters meet, the old one has more followers',
    changes: { rules: { staysMaster: () => true } }
  },
  {
    name: 'smaller-side-stays',
    without: 'the master with more followers stays',
    shownBy: 'two masters meet, the old one has more followers',
    changes: {
      rules: { staysMaster: (meeting) => (meeting.mode === 'majority') === RULES.staysMaster(meeting) }
    }
  },
  {
    name: 'no-raised-term',
    without: 'the session of the winner continues under a higher term',
    shownBy: 'two masters meet, the old one has more followers',
    changes: { rules: { mayRaiseTerm: () => false } }
  },
  {
    name: 'no-quorum-check',
    without: 'a master without a majority stops',
    shownBy: 'the smaller side of a cut has no master and acknowledges nothing, majority',
    changes: { rules: { keepsMastership: () => true } }
  },
  {
    name: 'no-news-of-resignation',
    without: 'a resigned master is missed at once',
    shownBy: 'a master that resigns is replaced without a timeout',
    changes: { rules: { hasResigned: () => false } }
  },
  {
    name: 'twice',
    without: 'a command is entered once',
    shownBy: 'a command runs once, sent to two nodes and after a failover',
    changes: { rules: { enteredBefore: () => undefined } }
  },
  {
    name: 'any-session',
    without: 'a command of another session is refused',
    shownBy: 'a command for another session is refused',
    changes: { rules: { fitsSession: () => true } }
  },
  {
    name: 'streams-outlive',
    without: 'streams end with their session',
    shownBy: 'two masters meet, the old one has more followers',
    changes: { rules: { sessionEnds: () => false } }
  },
  {
    name: 'term-ends-streams',
    without: 'streams continue when only the term rises',
    shownBy: 'two masters meet, the old one has more followers',
    changes: {
      rules: { sessionEnds: (old, next) => old !== null && (old.sid !== next?.sid || old.term !== next.term) }
    }
  },
  {
    name: 'voters-at-will',
    without: 'the voters change by one, when no change is pending',
    shownBy: 'voters change one at a time',
    changes: { rules: { mayChangeVoters: () => 'yes' } }
  }
]
