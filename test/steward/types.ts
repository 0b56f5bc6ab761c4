/** Types of the steward benchmark. */
import type { TestNode } from '../node/kit.js'
import type { Test } from 'tap'

export interface Host { readonly name: string, readonly home: string, readonly node: TestNode }

/** A cause that an answer must name. */
export interface Cause {
  /** The answer must have a fact with one of these codes. */
  readonly codes: readonly string[]
  /** Names and ids that must all occur in the same fact or in the diagnosis. */
  readonly names: readonly string[]
  /** A diagnosis that matches this pattern and contains the names also counts. */
  readonly says?: RegExp
  /** Whether the answer may also name the cause as a fact that was unavailable. */
  readonly unknown?: boolean
}

/** The expected remedy, and the condition after it. */
export interface ExpectedRemedy {
  /** Matches one of the answer's commands or sentences. */
  readonly command: RegExp
  /** Runs the remedy; by default the command itself, on the host that was asked. */
  readonly run?: (command: string) => Promise<void>
  /** Waits until the fault is over. */
  readonly holds: () => Promise<unknown>
}

/** The true condition of the cluster. `causes`: all causes. `says`: patterns that the answer must match. */
export type Truth =
  | { readonly kind: 'fault', readonly causes: readonly Cause[] }
  | { readonly kind: 'fact', readonly says: readonly RegExp[] }
  /** `besides`: health codes about the machine itself, such as overload. */
  | { readonly kind: 'healthy', readonly besides?: readonly string[] }

/** An injected fault, and the questions about it. */
export interface Fault {
  /** The hosts to ask, in rotation. */
  readonly at: readonly Host[]
  /** Wordings of the question; the third one is terse, or has a typo. */
  readonly ask: readonly [string, string, string]
  readonly truth: Truth
  readonly mend?: ExpectedRemedy
  /** Undoes the fault if no answer did, or if no remedy is expected. */
  readonly repair?: () => Promise<unknown>
  /** Token for the questions; the operator's by default. */
  readonly token?: string
}

/** One way to break a cluster. */
export interface Scenario<R> {
  readonly name: string
  /** Resolves once the fault is in effect. */
  readonly break: (rig: R, t: Test) => Promise<Fault>
}

/** Scenarios that share a cluster and run in sequence; each is undone before the next begins. */
export interface Group<R = unknown> {
  readonly name: string
  readonly needs: (t: Test) => Promise<R>
  readonly scenarios: readonly Scenario<R>[]
}

/** Erases a group's rig type, so that groups with different rigs fit in one list. */
export const group = <R>(made: Group<R>): Group => made as unknown as Group

/** The parts of an answer that are judged. */
export interface Answered {
  readonly diagnosis: string
  readonly sure: boolean
  readonly facts: readonly {
    readonly level: string, readonly code: string, readonly text: string, readonly about: readonly string[]
  }[]
  readonly remedies: readonly string[]
  readonly unknown: readonly string[]
  readonly calls: readonly { readonly tool: string }[]
}

/** `wrong and sure`: a wrong cause, stated as certain. `no command`: the cause, but no working remedy. */
export type Verdict = 'right' | 'unsure' | 'wrong' | 'wrong and sure' | 'no command' | 'no answer'
