import { RULES } from '../../kernel/cluster/election/index.js'
import type { Changes } from './world.js'

/** The algorithm without one of its rules. */
export interface Mutant {
  readonly name: string
  /** What is missing. */
  readonly without: string
  readonly changes: Changes
}

const mutant = (name: string, without: string, rules: Changes['rules'] & object): Mutant =>
  ({ name, without, changes: { rules } })

export const MUTANTS: readonly Mutant[] = [
  mutant('trusts-own-silence', 'a node that stood still suspects itself first', { stalled: () => false }),
  mutant('no-stickiness', 'who hears a master supports no other', { sticksToMaster: () => false }),
  mutant('no-pre-vote', 'nobody campaigns while a peer hears a master', { mayCampaign: () => true }),
  mutant('no-denial', 'a named master ends the pre-vote', { denies: () => false }),
  mutant('ballot-by-id', 'the freshest ballot wins', {
    ballotOrder: (a, b) => a.nodeId < b.nodeId ? -1 : a.nodeId > b.nodeId ? 1 : 0
  }),
  mutant('silent-on-old-ballot', 'an old ballot is told the term', { answersOldBallot: () => false }),
  mutant('two-votes', 'one vote per term', { mayVote: () => true }),
  mutant('stale-claimant', 'a claimant knows at least what its voters know', { freshEnough: () => true }),
  mutant('trusts-failed-disk', 'a failed write is no promise', { promiseCounts: () => true }),
  {
    name: 'unwritten-promise',
    without: 'the promise is on disk before the answer leaves',
    changes: { forgetful: true }
  },
  mutant('one-voice', 'a majority elects', {
    claimResult: (state) => RULES.claimResult({ ...state, needed: 1 })
  }),
  mutant('deaf-to-refusal', 'in the available mode any refusal ends a claim', {
    claimResult: (state) => RULES.claimResult({ ...state, refused: false })
  }),
  mutant('keep-claim', 'accepting a master ends an own claim', { claimStands: () => true }),
  mutant('no-promise', 'a master below the promise is refused', { mayFollow: () => true }),
  mutant('silent-refusal', 'a refused master is told why', { answersRefused: () => false }),
  mutant('roll-back', 'control data never goes back', { mayReplace: () => true }),
  mutant('ack-at-once', 'enough nodes hold what is acknowledged', { heldByEnough: () => true }),
  mutant('any-message-verifies', 'only an answer to the newest probe makes a master sure', { verifies: () => true }),
  mutant('unsure-acts', 'a master that is not sure acknowledges nothing', { mayActAsMaster: () => true }),
  mutant('unsure-stays', 'a master that is not sure yields', {
    staysMaster: (meeting) => RULES.staysMaster({ ...meeting, verified: true })
  }),
  mutant('never-yields', 'of two masters one yields', { staysMaster: () => true }),
  mutant('smaller-side-stays', 'the master with more followers stays', {
    staysMaster: (meeting) => meeting.mode === 'majority' ? RULES.staysMaster(meeting) : !RULES.staysMaster(meeting)
  }),
  mutant('no-re-anoint', 'the session of the winner lives on under a higher term', { mayReanoint: () => false }),
  mutant('no-quorum-check', 'a master without a majority stops', { keepsMastership: () => true }),
  mutant('no-news-of-resignation', 'a resigned master is missed at once', { hasResigned: () => false }),
  mutant('twice', 'a command is entered once', { enteredBefore: () => undefined }),
  mutant('any-session', 'a command of another session is refused', { fitsSession: () => true }),
  mutant('streams-outlive', 'streams end with their session', { sessionEnds: () => false }),
  mutant('term-ends-streams', 'streams live on when only the term rises', {
    sessionEnds: (old, next) => old !== null && (old.sid !== next?.sid || old.term !== next.term)
  }),
  mutant('voters-at-will', 'the voters change by one, when nothing is open', { mayChangeVoters: () => 'yes' }),
  mutant('open-fence', 'a worker acts only for the master it follows', { admitsDirective: () => ({ ok: true }) })
]
