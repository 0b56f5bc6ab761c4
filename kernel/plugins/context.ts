import { SvcError, kernelErrorDecl } from '../api/errors.js'
import { schemaChecker } from '../api/validate.js'
import type { Clock } from '../api/clock.js'
import type {
  Context, ErrorDecl, Logger, Manifest, NodeInfo, Plugin, ReadyCheck, Section, SectionDecl
} from '../api/plugin.js'
import type { Bus } from './events.js'
import type { Health } from './health.js'

/** What the kernel lends to plugins. */
export interface Lent {
  node: NodeInfo
  clock: Clock
  log: (plugin: string) => Logger
  bus: Bus
  health: Health
  section: (name: string, decl: SectionDecl) => Section<unknown>
  service: (id: string) => unknown
  config: (plugin: string) => unknown
  settings: (key: string) => unknown
  advertise: (tag: string, on: boolean) => void
  /** Runs a command of the cluster by its full name. */
  command: (name: string, args: unknown, id?: string) => Promise<unknown>
  readiness: (name: string, check: (model?: string) => ReadyCheck | Promise<ReadyCheck>) => () => void
}

interface Effect { label: string, dispose: () => void | Promise<void> }

/** A plugin's context together with what undoes everything made through it. */
export interface LiveContext {
  ctx: Context<never>
  /** Undoes every effect in reverse order; each runs even when others fail. Safe to call twice. */
  dispose (): Promise<void>
  /** Labels of what is held, newest last; for diagnostics. */
  effects (): string[]
}

/** Builds the context of one plugin. */
export function createContext (plugin: Plugin, lent: Lent): LiveContext {
  const { manifest } = plugin
  const effects: Effect[] = []
  const log = lent.log(manifest.name)
  const effect = (label: string, dispose: Effect['dispose']): void => { effects.push({ label, dispose }) }
  const ctx = {
    config: lent.config(manifest.name),
    settings: Object.fromEntries(Object.keys(manifest.settings ?? {}).map((key) =>
      [key, lent.settings(key)])),
    deps: dependencies(manifest, lent),
    log, clock: lent.clock, node: lent.node,
    sections: Object.fromEntries(Object.entries(manifest.sections ?? {}).map(([name, decl]) =>
      [name, tracked(lent.section(name, decl), name, effect)])),
    command: async (name: string, args: unknown, id?: string) => {
      const problem = ownCommand(manifest, name)(args)
      if (problem !== null) throw new TypeError(`command "${name}" of "${manifest.name}": ${problem}`)
      return await lent.command(commandName(manifest.name, name), args, id)
    },
    emit: (kind: string, payload: Record<string, unknown>) => { lent.bus.emit(manifest.name, kind, payload) },
    on (kind: string, fn: (payload: Record<string, unknown>) => void) {
      effect(`on ${kind}`, lent.bus.on(kind, (event) => { fn(event.payload) }))
    },
    raise: (code: string, observed: string) => { lent.health.raise(ownConflict(manifest, code), observed) },
    clear: (code: string) => { lent.health.clear(ownConflict(manifest, code)) },
    error: (reason: string, message?: string, details?: Record<string, unknown>) =>
      new SvcError(reason, ownError(manifest, reason), message, details),
    effect,
    every (label: string, ms: number, fn: () => void) {
      effect(`every ${label}`, lent.clock.every(ms, guarded(fn, log, label)))
    },
    advertise (tag: string, on: boolean) { lent.advertise(tag, on) },
    readiness (name: string, check: (model?: string) => ReadyCheck | Promise<ReadyCheck>) {
      effect(`readiness ${name}`, lent.readiness(name, check))
    }
  }
  return {
    ctx: ctx as unknown as Context<never>,
    effects: () => effects.map((e) => e.label),
    async dispose () {
      for (let next = effects.pop(); next !== undefined; next = effects.pop()) {
        try { await next.dispose() } catch (error) {
          log.error({ err: error, effect: next.label }, 'could not undo an effect')
        }
      }
    }
  }
}

/** The name of a plugin's command among those of all plugins. */
export function commandName (plugin: string, name: string): string { return `${plugin}.${name}` }

/** The check of the command's arguments. */
function ownCommand (manifest: Manifest, name: string): (args: unknown) => string | null {
  const decl = manifest.commands?.[name]
  if (decl === undefined) throw new Error(`plugin "${manifest.name}" has not declared the command "${name}"`)
  return schemaChecker(decl.args)
}

function dependencies (manifest: Manifest, lent: Lent): Record<string, unknown> {
  const deps: Record<string, unknown> = {}
  for (const [key, ref] of Object.entries(manifest.consumes ?? {})) {
    const service = lent.service(ref.id)
    if (service === undefined) {
      throw new Error(`the service "${ref.id}" (${key}) is not provided by anything enabled`)
    }
    deps[key] = service
  }
  for (const [key, ref] of Object.entries(manifest.consumesOptional ?? {})) deps[key] = lent.service(ref.id)
  return deps
}

/** Observers of a section are effects of the plugin too. */
function tracked (
  section: Section<unknown>, name: string, effect: (label: string, dispose: () => void) => void
): Section<unknown> {
  return {
    ...section,
    observe (fn) {
      const stop = section.observe(fn)
      effect(`observe ${name}`, stop)
      return stop
    }
  }
}

function guarded (fn: () => void, log: Logger, label: string): () => void {
  return () => {
    try { fn() } catch (error) { log.error({ err: error, timer: label }, 'a timer failed') }
  }
}

function ownConflict (manifest: Manifest, code: string): string {
  if (manifest.conflicts?.[code] === undefined) {
    throw new Error(`plugin "${manifest.name}" has not declared the conflict code "${code}"`)
  }
  return code
}

function ownError (manifest: Manifest, reason: string): ErrorDecl {
  const decl = manifest.errors?.[reason] ?? kernelErrorDecl(reason)
  if (decl === undefined) throw new Error(`plugin "${manifest.name}" has not declared the error "${reason}"`)
  return decl
}
