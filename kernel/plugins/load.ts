import fp from 'fastify-plugin'
import type { FastifyInstance } from 'fastify'
import { BootError } from '../boot/boot-error.js'
import { createContext } from './context.js'
import { parseNeed } from './graph.js'
import type { Plugin } from '../api/plugin.js'
import type { Lent, LiveContext } from './context.js'
import type { StateView } from '../state/state.js'

/** What a started plugin handed back, before it is checked against its manifest. */
interface Parts {
  routes?: Record<string, (request: never) => unknown>
  invoke?: Record<string, unknown>
  services?: Record<string, unknown>
  commands?: Record<string, (args: unknown) => unknown>
  state?: Record<string, StateView>
}

/** Called for each started plugin, in order. */
export interface Contributions {
  route (plugin: Plugin, name: string, handler: (request: never) => unknown, app: FastifyInstance): void
  capability (plugin: Plugin, name: string, handler: unknown): void
  service (id: string, instance: unknown): void
  command (plugin: Plugin, name: string, handler: (args: unknown) => unknown): void
  view (key: string, view: StateView): void
}

/** A plugin that has started. */
export interface Started { plugin: Plugin, live: LiveContext }

/** Longest time `start()` may take: slow work belongs into the background. */
export const START_LIMIT_MS = 8000

/**
 * Registers the plugins as siblings at the root, in the given order, and starts them. Every failure is
 * collected, what has started goes into `started`; plugins that need a failed one are not tried.
 * Throws BootError when there was any.
 */
export async function loadPlugins (
  app: FastifyInstance, order: readonly Plugin[], lent: Lent, to: Contributions, started: Started[]
): Promise<void> {
  const problems: string[] = []
  const failed = new Set<string>()
  const present = new Set(order.map((p) => p.manifest.name))
  for (const plugin of order) {
    const { name } = plugin.manifest
    const needs = (plugin.manifest.requires ?? []).map((r) => parseNeed(r).name).filter((n) => present.has(n))
    await app.register(fp(async (instance) => {
      const blocked = needs.find((n) => failed.has(n))
      if (blocked !== undefined) { failed.add(name); return }
      try {
        started.push({ plugin, live: await startOne(plugin, lent, to, instance) })
      } catch (error) {
        failed.add(name)
        problems.push(`plugin "${name}" failed to start: ${(error as Error).message}`)
      }
    }, { name, fastify: '5.x', dependencies: needs, encapsulate: true }))
  }
  if (problems.length > 0) throw new BootError(problems)
}

async function startOne (
  plugin: Plugin, lent: Lent, to: Contributions, app: FastifyInstance
): Promise<LiveContext> {
  lent.bus.declare(plugin.manifest.name, plugin.manifest.events ?? {})
  lent.health.declare(plugin.manifest.conflicts ?? {})
  const live = createContext(plugin, lent)
  app.addHook('onClose', async () => { await live.dispose() })
  const parts = (await inTime(plugin.start(live.ctx), lent)) as Parts | undefined ?? {}
  const { manifest } = plugin
  for (const [name, handler] of declared(manifest.commands, parts.commands, 'command')) {
    to.command(plugin, name, handler)
  }
  for (const [name, handler] of declared(manifest.routes, parts.routes, 'route')) {
    to.route(plugin, name, handler, app)
  }
  for (const [name, handler] of declared(manifest.capabilities, parts.invoke, 'capability')) {
    to.capability(plugin, name, handler)
  }
  for (const [key, instance] of declared(manifest.provides, parts.services, 'service')) {
    to.service(manifest.provides![key]!.id, instance)
  }
  for (const [key, view] of declared(manifest.state, parts.state, 'state key')) to.view(key, view)
  return live
}

async function inTime (started: unknown, lent: Lent): Promise<unknown> {
  if (!(started instanceof Promise)) return started
  return await new Promise((resolve, reject) => {
    const cancel = lent.clock.after(START_LIMIT_MS, () => {
      reject(new Error(`start() took over ${START_LIMIT_MS / 1000} seconds; ` +
        'move slow work into the background'))
    })
    started.then(resolve, reject).finally(cancel)
  })
}

/** Pairs what is declared with what was returned; both directions must match. */
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
