import { SvcError, kernelErrorDecl } from '../api/errors.js'
import { schemaChecker } from '../api/validate.js'
import type { ClusterHost } from '../api/cluster.js'
import type { MountedRoute } from '../http/request-context.js'
import type {
  CommandSender, Context, Logger, Manifest, Plugin, ReadyCheck, Refs, Section, SectionDecl, ServiceRef
} from '../api/plugin.js'
import type { CapabilityHandler } from '../api/services.js'
import type { Assembly, KernelOptions } from './assembly.js'
import type { StateView } from '../state/state.js'

interface Effect { label: string, dispose: () => void | Promise<void> }
type AddEffect = (label: string, dispose: Effect['dispose']) => void

/** A plugin's context and the functions to undo its effects. */
export interface LiveContext {
  ctx: Context<never>
  /** Undoes every effect in reverse order; each runs even when others fail. Safe to call twice. */
  dispose (): Promise<void>
  /** Labels of the effects, newest last, for diagnostics. */
  effects (): string[]
  read: Refs
}

export interface Contributed {
  commands: [string, (args: unknown, sender: CommandSender) => unknown][]
  routes: [string, MountedRoute['handler']][]
  invoke: [string, CapabilityHandler][]
  services: [string, unknown][]
  state: [string, StateView][]
}

/** The result of `start`, not yet compared with the manifest. */
type Returned = { [K in keyof Contributed]?: Record<string, Contributed[K][number][1]> }

/** Runs a plugin's `start`. Throws its errors, and an Error if the result does not match the manifest. */
export async function startOne (
  { manifest, start }: Plugin, live: LiveContext, host: ClusterHost
): Promise<Contributed> {
  const given = (await start(live.ctx, host) ?? {}) as Returned
  return {
    commands: declared(manifest.commands, given.commands, 'command'),
    routes: declared(manifest.routes, given.routes, 'route'),
    invoke: declared(manifest.capabilities, given.invoke, 'capability'),
    services: declared(manifest.provides, given.services, 'service'),
    state: declared(manifest.state, given.state, 'state key')
  }
}

/** Pairs the declared parts with those that `start` returned; throws if either is missing. */
function declared<T> (
  decls: object | undefined, given: Record<string, T> | undefined, what: string
): [string, T][] {
  const wanted = Object.keys(decls ?? {})
  const extra = Object.keys(given ?? {}).find((key) => !wanted.includes(key))
  if (extra !== undefined) {
    throw new Error(`start() returned the ${what} "${extra}", which the manifest does not declare`)
  }
  return wanted.map((key) => {
    const value = given?.[key]
    if (value === undefined) throw new Error(`start() returned nothing for the declared ${what} "${key}"`)
    return [key, value]
  })
}

export function createContext ({ manifest }: Plugin, kernel: Assembly): LiveContext {
  const { options, bus, health, changes, tags } = kernel
  bus.declare(manifest.name, manifest.events ?? {})
  health.declare(manifest.conflicts ?? {})
  const { cluster, clock } = options
  const effects: Effect[] = []
  const log = options.log(manifest.name)
  const settings = kernel.adopted.get(manifest.name)
  const own = new Set<string>()
  const { deps, read } = dependencies(manifest, kernel.services)
  let over = false
  const undo = async ({ label, dispose }: Effect): Promise<void> => {
    try { await dispose() } catch (err) { log.error({ err, effect: label }, 'could not undo an effect') }
  }
  const effect: AddEffect = (label, dispose) => {
    // `start` timed out but is still running, so any effects it adds now are undone immediately.
    if (over) void undo({ label, dispose })
    else effects.push({ label, dispose })
  }
  const ctx = {
    config: settings?.plugin(manifest.name) ?? options.config(manifest.name),
    settings: ownSettings(manifest, settings ?? options),
    deps, log, clock, node: options.node,
    sections: Object.fromEntries(Object.entries(manifest.sections ?? {}).map(([name, decl]) =>
      [name, sectionFor(kernel, name, decl, effect)])),
    command: async (name: string, args: unknown, id?: string) => {
      const problem = schemaChecker(declOf(manifest, 'command', manifest.commands, name).args)(args)
      if (problem !== null) throw new TypeError(`command "${name}" of "${manifest.name}": ${problem}`)
      return (await cluster.commands.run(commandName(manifest.name, name), args, id)).result
    },
    emit: (kind: string, payload: Record<string, unknown>) => {
      if (!over) bus.emit(manifest.name, kind, payload)
    },
    on (kind: string, fn: (payload: Record<string, unknown>) => void) {
      effect(`on ${kind}`, bus.on(kind, (event) => { fn(event.payload) }))
    },
    raise: (code: string, observed: string) => {
      if (!over) health.raise(conflictOf(manifest, code), observed)
    },
    clear: (code: string) => { health.clear(conflictOf(manifest, code)) },
    error: (reason: string, message?: string, details?: Record<string, unknown>) => new SvcError(reason,
      kernelErrorDecl(reason) ?? declOf(manifest, 'error', manifest.errors, reason), message, details),
    effect,
    every (label: string, ms: number, fn: () => void) {
      effect(`every ${label}`, clock.every(ms, guarded(fn, log, label)))
    },
    checker: schemaChecker,
    advertise (tag: string, on: boolean) {
      if (on && !over) tags.add(tag)
      else tags.delete(tag)
      own.add(tag)
      changes.notify()
    },
    readiness (name: string, check: (model?: string) => ReadyCheck | Promise<ReadyCheck>) {
      effect(`readiness ${name}`, kernel.readiness.add(name, check))
    }
  }
  return {
    ctx: ctx as unknown as Context<never>,
    effects: () => effects.map((e) => e.label), read,
    async dispose () {
      for (let next = effects.pop(); next !== undefined; next = effects.pop()) await undo(next)
      if (over) return
      // Ignores events from code that keeps running after disposal.
      over = true
      for (const code in manifest.conflicts) health.clear(code)
      for (const tag of own) tags.delete(tag)
    }
  }
}

export function commandName (plugin: string, name: string): string { return `${plugin}.${name}` }

/** The declaration with this name; throws if the plugin has none. */
function declOf<T> (
  { name: plugin }: Manifest, what: string, decls: Readonly<Record<string, T>> | undefined, name: string
): T {
  const decl = decls?.[name]
  if (decl === undefined) throw new Error(`plugin "${plugin}" has not declared the ${what} "${name}"`)
  return decl
}

function conflictOf (manifest: Manifest, code: string): string {
  declOf(manifest, 'conflict code', manifest.conflicts, code)
  return code
}

function dependencies (
  manifest: Manifest, services: Assembly['services']
): { deps: Record<string, unknown>, read: Record<string, ServiceRef<unknown>> } {
  const deps: Record<string, unknown> = {}
  const read: Record<string, ServiceRef<unknown>> = {}
  for (const [key, ref] of Object.entries(manifest.consumes ?? {})) {
    const service = services.get(ref.id)
    if (service === undefined) {
      throw new Error(`the service "${ref.id}" (${key}) is not provided by any enabled plugin`)
    }
    deps[key] = service
  }
  for (const [key, ref] of Object.entries(manifest.consumesOptional ?? {})) {
    const get = (): unknown => services.get((read[key] = ref).id)
    Object.defineProperty(deps, key, { enumerable: true, get })
  }
  return { deps, read }
}

export function ownSettings (
  manifest: Manifest, { settings }: Pick<KernelOptions, 'settings'>
): Record<string, unknown> {
  return Object.fromEntries(Object.keys(manifest.settings ?? {}).map((key) => [key, settings(key)]))
}

/** A section whose observers are removed when the plugin stops. */
function sectionFor (
  { options: { cluster }, changes }: Assembly, name: string, decl: SectionDecl, effect: AddEffect
): Section<unknown> {
  const section = cluster.sections.section<unknown>(name, decl)
  effect(`changes of ${name}`, section.observe(changes.notify))
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
