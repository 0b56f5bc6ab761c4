import { deepFreeze, onPrefix, schemaChecker } from '../../kernel/cluster.js'
import type { Logger, Section, SectionDecl } from '../../kernel/cluster.js'
import type { CommandRouter } from './commands.js'
import type { ControlLog } from './log/log.js'
import type { Replicas } from './replicas/replicas.js'

export interface SectionsOptions {
  self: { readonly installId: string, readonly nodeId: string }
  control: ControlLog, replicas: Replicas, commands: CommandRouter
  masterNodeId: () => string | null
  log: Logger
}

export type Sections = ReturnType<typeof createSections>

/** The only access of plugins to the cluster's documents: plain JSON under flat keys `section/key`. */
export function createSections (options: SectionsOptions) {
  const dropped = new Set<string>()
  return {
    section<T> (name: string, decl: SectionDecl) {
      if (decl.writer === 'master' && decl.carry === false) dropped.add(`${name}/`)
      const prefix = `${name}/`
      const check = new EntryCheck(name, schemaChecker(decl.value), options.log)
      return decl.writer === 'master'
        ? masterSection<T>(prefix, check, options)
        : nodeSection<T>(prefix, check, options)
    },
    carried: (key: string) => !dropped.has(key.slice(0, key.indexOf('/') + 1))
  }
}

const LOGGED_MAX = 100

/** Skips entries that do not fit the section's schema; other nodes may run another version. */
export class EntryCheck {
  readonly #name: string
  readonly #problem: (value: unknown) => string | null
  readonly #log: Logger
  /** Whether a value is valid. Values are immutable, so each is checked only once. */
  readonly #checked = new WeakMap<object, boolean>()
  readonly #logged = new Set<string>()
  #skipped = 0

  constructor (name: string, problem: (value: unknown) => string | null, log: Logger) {
    this.#name = name
    this.#problem = problem
    this.#log = log
  }

  /** Throws a TypeError that names section, key and field. */
  assert (key: string, value: unknown): void {
    const problem = this.#problem(value)
    if (problem !== null) throw new TypeError(`section "${this.#name}", key "${key}": ${problem}`)
  }

  /** Whether an entry fits the schema; an invalid one is counted and logged once. `from`: a node id. */
  fits (from: string, key: string, value: unknown): boolean {
    const held = typeof value === 'object' && value !== null ? value : undefined
    const known = held && this.#checked.get(held)
    if (known !== undefined) return known
    const problem = this.#problem(value)
    if (held !== undefined) this.#checked.set(held, problem === null)
    if (problem === null) return true
    this.#skipped++
    const entry = `${from} ${key}`
    if (!this.#logged.has(entry) && this.#logged.size < LOGGED_MAX) {
      this.#logged.add(entry)
      this.#log.warn({ section: this.#name, key, from, problem, skipped: this.#skipped },
        'an entry of a document does not match its schema and is skipped')
    }
    return false
  }
}

/** Freezes a value, because a reader could otherwise change the document through it. */
const frozen = (value: unknown): unknown => Object.isFrozen(value) ? value : deepFreeze(value)

function masterSection<T> (prefix: string, check: EntryCheck, options: SectionsOptions): Section<T> {
  const { control, commands } = options
  const raw = (key: string): unknown =>
    commands.pending?.has(key) === true ? commands.pending.get(key) : control.get(key)
  const read = (key: string): unknown => {
    const value = raw(key)
    if (value === undefined || !check.fits(options.masterNodeId() ?? 'master', key, value)) return undefined
    return frozen(value)
  }
  return {
    put (key, value) {
      check.assert(key, value)
      commands.write(prefix + key, structuredClone(value))
    },
    remove (key) { if (raw(prefix + key) !== undefined) commands.write(prefix + key, undefined) },
    get: (key) => read(prefix + key) as T | undefined,
    * entries () {
      const nodeId = options.masterNodeId() ?? ''
      const keys = new Set([...control.entries()].map(([key]) => key))
      for (const key of commands.pending?.keys() ?? []) keys.add(key)
      for (const key of keys) {
        const value = key.startsWith(prefix) ? read(key) : undefined
        if (value !== undefined) yield { nodeId, key: key.slice(prefix.length), value: value as T }
      }
    },
    observe: (fn) => control.observe(onPrefix(prefix, fn, options.log))
  }
}

function nodeSection<T> (prefix: string, check: EntryCheck, options: SectionsOptions): Section<T> {
  const { replicas, self } = options
  return {
    put (key, value) {
      check.assert(key, value)
      replicas.put(prefix + key, structuredClone(value))
    },
    remove (key) { replicas.remove(prefix + key) },
    get (key, nodeId = self.nodeId) {
      if (nodeId === self.nodeId) return frozen(replicas.get(prefix + key)) as T | undefined
      const value = replicas.documentOf(nodeId)?.get(prefix + key)
      const fits = value !== undefined && check.fits(nodeId, prefix + key, value)
      return fits ? frozen(value) as T : undefined
    },
    // Entries of a node whose link is down are hidden.
    * entries () {
      for (const { nodeId, key, value, old } of replicas.entries()) {
        if (!key.startsWith(prefix) || old || !check.fits(nodeId, key, value)) continue
        yield { nodeId, key: key.slice(prefix.length), value: frozen(value) as T }
      }
    },
    observe (fn) {
      const listen = onPrefix(prefix, fn, options.log)
      return replicas.observe(({ keys }) => { listen(keys) })
    }
  }
}
