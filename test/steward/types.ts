/** What the measure of the steward's answers is made of. */
import type { TestNode } from '../node/kit.js'
import type { Test } from 'tap'

/** A node that can be asked. */
export interface Host { readonly name: string, readonly home: string, readonly node: TestNode }

/** What an answer has to name. */
export interface Cause {
  /** Any of these codes. */
  readonly codes: readonly string[]
  /** All of these names and ids stand in the same fact, or in the sentence of diagnosis. */
  readonly names: readonly string[]
  /** The sentence of diagnosis counts, too, where it fits this and has the names. */
  readonly says?: RegExp
  /** What it says that it could not look at counts, too. */
  readonly unknown?: boolean
}

/** What an answer has to propose, and what is so once it was done. */
export interface Mend {
  /** One of the answer's commands or sentences fits this. */
  readonly command: RegExp
  /** Does what it says; by default the command is run as it stands, on the host that was asked. */
  readonly run?: (command: string) => Promise<void>
  /** Waits until the fault is over. */
  readonly holds: () => Promise<unknown>
}

/** What is so. `causes`: all of them. `says`: the words of the answer fit all of these. */
export type Truth =
  | { readonly kind: 'fault', readonly causes: readonly Cause[] }
  | { readonly kind: 'fact', readonly says: readonly RegExp[] }
  /** `besides`: health codes that the machine itself has earned, such as one that is too busy. */
  | { readonly kind: 'healthy', readonly besides?: readonly string[] }

/** A fault that is in force, and what is asked about it. */
export interface Fault {
  /** The hosts that are asked, in turn. */
  readonly at: readonly Host[]
  /** The third one is terse, or has a slip. */
  readonly ask: readonly [string, string, string]
  readonly truth: Truth
  readonly mend?: Mend
  /** Undoes it where no answer did, or nothing needs to be proposed. */
  readonly repair?: () => Promise<unknown>
  /** In whose name is asked; the operator when absent. */
  readonly token?: string
}

/** One way to break a cluster. */
export interface Scenario<R> {
  readonly name: string
  /** Resolves once the fault is in force. */
  readonly break: (rig: R, t: Test) => Promise<Fault>
}

/** Scenarios that share a cluster, one after the other: each is mended before the next begins. */
export interface Group<R = unknown> {
  readonly name: string
  readonly needs: (t: Test) => Promise<R>
  readonly scenarios: readonly Scenario<R>[]
}

/** A group that forgets what its scenarios work with. */
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

/** `wrong and sure`: another cause, without a doubt. `no command`: the cause, and nothing that mends it. */
export type Verdict = 'right' | 'unsure' | 'wrong' | 'wrong and sure' | 'no command' | 'no answer'
