import { deepFreeze } from '../config/paths.js'
import { compileStrict, issuesOf } from '../validate.js'
import type { Section, SectionDecl } from '../define.js'
import type { CommandDesk } from './desk.js'
import type { Control, Replicas } from './documents/index.js'

export interface SectionsOptions {
  self: { readonly installId: string, readonly nodeId: string }
  control: Control
  replicas: Replicas
  desk: CommandDesk
  masterNodeId: () => string | null
}

/** Named parts of the cluster's documents, as plugins use them; nothing else sees the documents. */
export interface Sections {
  section<T> (name: string, decl: SectionDecl): Section<T>
  /** Number of keys by document, for diagnostics. */
  size (): { control: number, observed: number }
  /** Whether a key of the control document goes on into a new session. */
  carried (key: string): boolean
}

/** Values are plain JSON under flat keys `section/key`. */
export function createSections (options: SectionsOptions): Sections {
  const dropped = new Set<string>()
  return {
    section<T> (name: string, decl: SectionDecl) {
      if (decl.writer === 'master' && decl.carry === false) dropped.add(`${name}/`)
      const prefix = `${name}/`
      const check = checker(name, decl)
      return decl.writer === 'master'
        ? masterSection<T>(prefix, check, options)
        : nodeSection<T>(prefix, check, options)
    },
    size: () => ({
      control: [...options.control.entries()].length, observed: [...options.replicas.entries()].length
    }),
    carried: (key) => !dropped.has(key.slice(0, key.indexOf('/') + 1))
  }
}

type Check = (key: string, value: unknown) => void

/** Throws a TypeError that names section, key and field. */
function checker (name: string, decl: SectionDecl): Check {
  const validate = compileStrict(decl.value)
  return (key, value) => {
    if (validate(value)) return
    const [issue] = issuesOf(validate.errors)
    const what = `${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`
    throw new TypeError(`section "${name}", key "${key}": ${what}`)
  }
}

/** A reader that changed what it got would change the document unseen. */
const frozen = (value: unknown): unknown => Object.isFrozen(value) ? value : deepFreeze(value)

function masterSection<T> (prefix: string, check: Check, options: SectionsOptions): Section<T> {
  const { control, desk } = options
  const read = (key: string): unknown =>
    desk.pending?.has(key) === true ? desk.pending.get(key) : frozen(control.get(key))
  return {
    put (key, value) {
      check(key, value)
      desk.write(prefix + key, structuredClone(value))
    },
    remove (key) { if (read(prefix + key) !== undefined) desk.write(prefix + key, undefined) },
    get: (key) => read(prefix + key) as T | undefined,
    * entries () {
      const nodeId = options.masterNodeId() ?? ''
      const keys = new Set([...control.entries()].map(([key]) => key))
      for (const key of desk.pending?.keys() ?? []) keys.add(key)
      for (const key of keys) {
        const value = key.startsWith(prefix) ? read(key) : undefined
        if (value !== undefined) yield { nodeId, key: key.slice(prefix.length), value: value as T }
      }
    },
    observe: (fn) => control.observe(onPrefix(prefix, fn))
  }
}

function nodeSection<T> (prefix: string, check: Check, options: SectionsOptions): Section<T> {
  const { replicas, self } = options
  return {
    put (key, value) {
      check(key, value)
      replicas.put(prefix + key, structuredClone(value))
    },
    remove (key) { replicas.remove(prefix + key) },
    get (key, nodeId = self.nodeId) {
      if (nodeId === self.nodeId) return frozen(replicas.get(prefix + key)) as T | undefined
      for (const entry of replicas.entries()) {
        if (entry.nodeId === nodeId && entry.key === prefix + key) return frozen(entry.value) as T
      }
      return undefined
    },
    // What a node said before its link broke is not shown any more.
    * entries () {
      for (const { nodeId, key, value, old } of replicas.entries()) {
        if (!key.startsWith(prefix) || old) continue
        yield { nodeId, key: key.slice(prefix.length), value: frozen(value) as T }
      }
    },
    observe (fn) {
      const listen = onPrefix(prefix, fn)
      return replicas.observe(({ keys }) => { listen(keys) })
    }
  }
}

/**
 * Calls `fn` once after a burst of changes below a prefix, never within the change: what it does may change
 * the documents again.
 */
function onPrefix (prefix: string, fn: () => void): (keys: ReadonlySet<string>) => void {
  let waiting = false
  return (keys) => {
    if (waiting || ![...keys].some((key) => key.startsWith(prefix))) return
    waiting = true
    queueMicrotask(() => { waiting = false; fn() })
  }
}
