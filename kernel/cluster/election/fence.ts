import type { Leader, Token } from './types.js'

export type Admission = { readonly ok: true } | {
  readonly ok: false
  /**
   * `stale`: below what this node promised; its sender is not master any more. `unknown`: this node does
   * not follow that master (yet); retry. `storage_failed`: this node's disk takes no promise, so it carries
   * nothing out.
   */
  readonly code: 'stale' | 'unknown' | 'storage_failed'
  readonly promised: Token
}

/** What the fence looks at when a directive arrives. */
export interface FenceState {
  readonly leader: Leader | null
  readonly promised: Token
  /** Whether the disk holds a promise for the term of `leader`. */
  readonly covered: boolean
}

export type AdmitRule = (state: FenceState, token: Token) => Admission

/**
 * A directive is carried out only under the accepted token, never below the promise, never without a
 * promise.
 */
export const admitsDirective: AdmitRule = ({ leader, promised, covered }, token) => {
  if (token.term < promised.term) return { ok: false, code: 'stale', promised }
  if (leader === null || leader.term !== token.term || leader.master !== token.master) {
    return { ok: false, code: 'unknown', promised }
  }
  return covered ? { ok: true } : { ok: false, code: 'storage_failed', promised }
}

/** Stands before everything a worker does for a master. */
export class Fence {
  readonly #state: () => FenceState
  readonly #rule: AdmitRule

  constructor (state: () => FenceState, rule: AdmitRule) {
    this.#state = state
    this.#rule = rule
  }

  /**
   * Whether a directive that carries this token may be carried out here and now. Ask at the moment of the
   * effect.
   */
  admits (token: Token): Admission { return this.#rule(this.#state(), token) }
}
