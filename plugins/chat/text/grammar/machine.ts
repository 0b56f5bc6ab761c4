/**
 * A recogniser for one output: a pushdown automaton over bytes whose states are built when they are first
 * met and kept, so that every later step is one look-up. A `Rule` describes a kind of value, a `Frame` is a
 * place inside one value together with where to go on after it, a `Config` is the set of frames that fit
 * the output so far.
 */

import { invalid } from '../errors.js'
import { spend } from './budget.js'

/** Place inside a rule; its meaning is the rule's. */
export type State = number | string

/**
 * Frames that fit at the same time; more alternatives are dropped, which only narrows what may be written.
 */
const MAX_FRAMES = 512

const MAX_RULES = 10_000

let nextId = 1

/** The rules of one grammar. */
export class RuleSet {
  /** A continuation that is not known, see `mask.ts`. */
  readonly hole = new Frame(null, 'hole', null)
  private readonly path: string
  private readonly rules: Rule[] = []

  /** `path` is named where there are too many rules. */
  constructor (path: string) { this.path = path }

  /** Called by each new rule. Throws `invalid_request` above the most that are taken. */
  add (rule: Rule): void {
    if (this.rules.push(rule) <= MAX_RULES) return
    throw invalid(`${this.path}: the schema needs more than ${MAX_RULES} rules`, this.path)
  }

  /** The rule, after `least` of all rules was computed; those without any value keep Infinity. */
  finished<R extends Rule> (rule: R): R {
    // Inner rules were made last: going backwards, most sizes are known at the first pass.
    this.rules.reverse()
    let changed = true
    while (changed) {
      changed = false
      for (const each of this.rules) {
        spend(20)
        const least = each.measure()
        if (least >= each.least) continue
        each.least = least
        changed = true
      }
    }
    return rule
  }
}

/** A kind of value. Subclasses are pure: everything that changes is in the state. */
export abstract class Rule {
  readonly id = nextId++
  /** Bytes of the shortest value; Infinity while unknown or where no value exists. */
  least = Infinity
  /** Place where frames of this rule without a real continuation hang, see `mask.ts`. */
  readonly hole: Frame
  /** Whether a special token that spells a marker may stand at a frame of this rule. */
  readonly takesMarkers: boolean = false
  /** The state before the first byte. */
  protected readonly first: State = 0

  constructor (set: RuleSet) {
    this.hole = set.hole
    set.add(this)
  }

  /** Computes `least` from the rules below; called until nothing changes. */
  measure (): number {
    return this.rest(this.first)
  }

  /** The frames before the first byte of a value that `ret` follows. */
  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, this.first, ret)]
  }

  /** The frames after one more byte; none where it does not fit. */
  abstract step (frame: Frame, byte: number): readonly Frame[]
  /** Bytes of the shortest way from this state to the end of the value. */
  abstract rest (state: State): number

  /** Whether the value may end here without another byte. */
  complete (_state: State): boolean {
    return false
  }

  /** Whether the whole output may end here. */
  final (_state: State): boolean {
    return false
  }

  /** A state with the same next tokens (of at most `longest` bytes) as this one, the same one for many. */
  alike (state: State, _longest: number): State {
    return state
  }
}

/** One place inside one value. Equal places are the same object. */
export class Frame {
  readonly rule: Rule | null
  readonly state: State
  readonly ret: Frame | null
  /** Bytes of the shortest way to the end of the whole output. */
  readonly closing: number
  readonly complete: boolean
  readonly children = new Map<string, Frame>()
  private own: Config | null = null
  /** What `mask.ts` keeps here. */
  mask: Uint32Array | null = null
  inner: { bits: Uint32Array, exits: readonly number[] } | null = null

  constructor (rule: Rule | null, state: State, ret: Frame | null) {
    this.rule = rule
    this.state = state
    this.ret = ret
    const final = rule?.final(state) ?? true
    this.complete = rule?.complete(state) ?? false
    this.closing = final || rule === null ? 0 : rule.rest(state) + (ret?.closing ?? 0)
  }

  /** This frame alone. */
  get alone (): Config {
    this.own ??= new Config([this])
    return this.own
  }

  /** Whether the output may end here. */
  get final (): boolean {
    if (this.rule === null) return this.state === 'end'
    return this.rule.final(this.state) || (this.complete && this.ret?.final === true)
  }
}

/** The end of the output. */
export const endFrame = (): Frame => new Frame(null, 'end', null)

/** The frame of `rule` in `state` that `ret` follows. */
export function frameOf (rule: Rule, state: State, ret: Frame): Frame {
  const key = `${rule.id}:${state}`
  let frame = ret.children.get(key)
  if (frame === undefined) {
    spend(50)
    frame = new Frame(rule, state, ret)
    ret.children.set(key, frame)
  }
  return frame
}

/** The frames after one more byte, including those of what follows a value that may end here. */
export function stepFrame (frame: Frame, byte: number): readonly Frame[] {
  if (frame.rule === null) return []
  const inside = frame.rule.step(frame, byte)
  if (!frame.complete || frame.ret === null) return inside
  return [...inside, ...stepFrame(frame.ret, byte)]
}

/** Steps the frames a value of `rule` begins with; for rules that open another value with this byte. */
export function stepInto (rule: Rule, ret: Frame, byte: number): readonly Frame[] {
  return rule.start(ret).flatMap((f) => stepFrame(f, byte))
}

/** Configs made between two epochs; each takes some 2 KB with its frames. */
const EPOCH_CONFIGS = 100_000
let made = 0
/** Rises as configs are made; what was built in an earlier epoch is to be dropped. */
export const epoch = (): number => Math.floor(made / EPOCH_CONFIGS)

/** Drops what was built around the places of a config. It is built again where it is needed. */
export function forget (config: Config): void {
  config.forget()
  for (const frame of config.frames) {
    for (let at: Frame | null = frame; at !== null; at = at.ret) {
      at.children.clear()
      at.alone.forget()
      at.rule?.hole.children.clear()
    }
  }
}

/** All frames that fit the output so far. */
export class Config {
  readonly frames: readonly Frame[]
  /** Bytes of the shortest way to the end of the output. */
  readonly closing: number
  /** Whether the output may end here. */
  readonly final: boolean
  private next: (Config | null | undefined)[] = []

  constructor (frames: readonly Frame[]) {
    made++
    this.frames = frames
    this.closing = Math.min(...frames.map((f) => f.closing))
    this.final = frames.some((f) => f.final)
  }

  /** Drops the configs after this one. */
  forget (): void {
    this.next = []
  }

  /** The config after one more byte; null where it does not fit. */
  step (byte: number): Config | null {
    const known = this.next[byte]
    if (known !== undefined) return known
    spend(60 + 10 * this.frames.length)
    const frames = this.frames.length === 1
      ? stepFrame(this.frames[0] as Frame, byte)
      : this.frames.flatMap((f) => stepFrame(f, byte))
    const found = configOf(frames)
    this.next[byte] = found
    return found
  }
}

/** The config of these frames; null for none. Frames from which no end can be reached are left out. */
export function configOf (frames: readonly Frame[]): Config | null {
  let live = frames.filter((f) => f.closing < Infinity)
  if (live.length > 1) live = [...new Set(live)].slice(0, MAX_FRAMES)
  const [only] = live
  if (only === undefined) return null
  return live.length === 1 ? only.alone : new Config(live)
}

/** The config after several bytes; null where they do not fit. */
export function stepBytes (config: Config, bytes: Uint8Array): Config | null {
  let at: Config | null = config
  for (let i = 0; i < bytes.length && at !== null; i++) at = at.step(bytes[i] as number)
  return at
}
