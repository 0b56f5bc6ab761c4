import { isDeepStrictEqual } from 'node:util'
import { BootError, kernelError } from '../api/errors.js'
import { isClusterPlugin } from '../api/cluster.js'
import { formatPath, isTree, parsePath } from '../config/paths.js'
import { namedBy } from '../state/source.js'
import { restartReason } from './cold.js'
import { ownSettings } from './context.js'
import { startPlugins } from './lifecycle.js'
import { stopOne } from './running.js'
import { transitive } from './graph.js'
import type { Caller, Plugin } from '../api/plugin.js'
import type { FromSchema } from '../api/schema.js'
import type { ConfigChange, Saved } from '../config/api.js'
import type { ResolvedConfig } from '../config/resolve.js'
import type { systemRoutes } from '../http/system-routes.js'
import type { Assembly } from './assembly.js'
import type { Bus } from './events.js'
import type { Health } from './health.js'
import type { Installation } from './installation.js'
import type { Loaded, OffPlugin } from './load.js'

type Switched = FromSchema<typeof systemRoutes.switchPlugin.reply>
type Written = FromSchema<typeof systemRoutes.setConfig.reply>
type Effect = Pick<Switched, 'in_effect' | 'why'>

/** Result of one plugin's change: the reason why it has no effect yet, or how to undo it. */
type Stepped = { why: string } | { why: null, taken: readonly string[], back?: () => Promise<void> }

/** Changes svc.yaml and switches plugins without a restart if possible. Changes run one after another. */
export class PluginSwitch {
  /** Reports installed plugins with unaccepted file changes. */
  readonly tellChanged: ReturnType<typeof changeReporter>
  readonly #kernel: Assembly
  /** Rebuilds the server's routes for the plugins that run. */
  readonly #show: () => Promise<void>
  readonly #named: ReadonlySet<string>
  #last: Promise<unknown> = Promise.resolve()

  constructor (kernel: Assembly, show: () => Promise<void>) {
    const { health, bus, options: { node } } = kernel
    this.#kernel = kernel
    this.#show = show
    this.#named = new Set([...namedBy(kernel, 'stateWhereabouts'), ...namedBy(kernel, 'stateReadings')])
    this.tellChanged = changeReporter({ health, bus, nodeId: node.nodeId })
  }

  /**
   * Enables or disables a plugin that is bundled or in svc.yaml. A failure leaves the file and node
   * unchanged. Throws `not_found`, `plugin_failed`, `missing_grant`, `config_changed`.
   */
  async turn (name: string, enabled: boolean, caller: Caller): Promise<Switched> {
    return await this.#afterOthers(async () => await this.#turn(name, enabled, caller))
  }

  /**
   * Changes svc.yaml and switches the plugins concerned. A failure leaves both unchanged. Throws
   * `plugin_failed`, and errors from `ConfigApi.write`.
   */
  async write (change: ConfigChange, caller: Caller): Promise<Written> {
    return await this.#afterOthers(async () => {
      // The change may repair an invalid file, whose plugins are then switched only at the next restart.
      const before = switchesPlugins(change) ? await this.#load([]).catch(() => undefined) : undefined
      const { revision, effects } = await this.#apply(change, caller, before, [])
      const plugins = [...effects].map(([name, effect]) =>
        ({ name, enabled: this.#enabled(name), ...effect }))
      return { revision, restart_needed: this.#kernel.config.pending(), plugins }
    })
  }

  async #afterOthers<T> (work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return await done
  }

  async #turn (name: string, enabled: boolean, caller: Caller): Promise<Switched> {
    const { config } = this.#kernel
    const before = await this.#load([name])
    if (before.order.every((one) => one.manifest.name !== name) && findDisabled(before, name) === undefined) {
      if (!enabled && await this.#forget(name, before)) {
        const { revision, restart_needed } = config.read()
        return { revision, restart_needed, in_effect: true, why: null }
      }
      throw kernelError('not_found', `There is no plugin "${name}"; GET /v1/plugins lists them.`)
    }
    config.know(before.owners, [...before.authorities])
    // Enabling removes the setting: with an explicit `true`, the next boot would fail if a requirement were
    // disabled.
    const set = { [formatPath(['plugins', name, 'enabled'])]: enabled ? null : false }
    const { revision, effects } = await this.#apply({ set }, caller, before, [name])
    return { revision, restart_needed: config.pending(), ...effects.get(name)! }
  }

  /** Stops tracking a disabled plugin that svc.yaml no longer names; false if there is no such plugin. */
  async #forget (name: string, now: Loaded): Promise<boolean> {
    const { present, config } = this.#kernel
    if (findDisabled(present, name) === undefined) return false
    present.off = present.off.filter(({ plugin }) => plugin.manifest.name !== name)
    await this.#show()
    config.took([formatPath(['plugins', name])], now.config)
    return true
  }

  /** Writes a change, then switches the plugins in `named` and those whose `enabled` setting changes. */
  async #apply (
    change: ConfigChange, caller: Caller, before: Loaded | undefined, named: readonly string[]
  ): Promise<Pick<Saved, 'revision'> & { effects: Map<string, Effect> }> {
    const { present, config, health } = this.#kernel
    const was = this.#switches()
    const ran = present.on
    const written = config.write(change, caller)
    const is = this.#switches()
    const turned = [...new Set([...was.keys(), ...is.keys()])]
      .filter((name) => (was.get(name) ?? true) !== (is.get(name) ?? true))
    let effects: Map<string, Effect>
    try {
      effects = await this.#follow([...new Set([...named, ...turned])], before)
    } catch (error) {
      written.undo()
      throw error
    }
    if (config.pending()) health.raise('restart_needed', '')
    else health.clear('restart_needed')
    for (const name of effects.keys()) {
      if (turned.includes(name) || runningOf(ran, name) !== runningOf(present.on, name)) this.#tell(name)
    }
    return { revision: written.revision, effects }
  }

  #tell (plugin: string): void {
    const { bus, options: { node: { nodeId } } } = this.#kernel
    bus.emit('kernel', this.#enabled(plugin) ? 'PluginEnabled' : 'PluginDisabled', { nodeId, plugin })
  }

  /** The `enabled` settings in svc.yaml by plugin; a missing one means on. */
  #switches (): Map<string, boolean> {
    const plugins = this.#kernel.config.value(['plugins'])
    return new Map(Object.entries(isTree(plugins) ? plugins : {}).map(([name, section]) =>
      [name, !isTree(section) || section['enabled'] !== false]))
  }

  #enabled (name: string): boolean { return this.#switches().get(name) ?? true }

  /** Makes the plugins match svc.yaml. If that fails, restores them and throws `plugin_failed`. */
  async #follow (names: readonly string[], before: Loaded | undefined): Promise<Map<string, Effect>> {
    const effects = new Map<string, Effect>()
    if (names.length === 0) return effects
    const now = await this.#load(names)
    this.tellChanged(now.changed)
    const done: Stepped[] = []
    for (const step of inOrder(names, this.#kernel.present.on, now)) {
      try {
        const stepped = await this.#step(step, now, before, names)
        done.push(stepped)
        effects.set(step.name, { in_effect: stepped.why === null, why: stepped.why })
      } catch (error) {
        await this.#takeBack(done)
        throw error
      }
    }
    const { config, changes } = this.#kernel
    for (const one of done) if (one.why === null) config.took(one.taken, now.config)
    changes.notify()
    return effects
  }

  async #takeBack (done: readonly Stepped[]): Promise<void> {
    for (const one of done.toReversed()) {
      if (one.why !== null) continue
      await one.back?.().catch((err: unknown) => {
        this.#kernel.log.error({ err }, 'a plugin could not be restored after a failed change')
      })
    }
  }

  async #step (
    step: PluginChange, now: Loaded, before: Loaded | undefined, names: readonly string[]
  ): Promise<Stepped> {
    const { present, adopted, started } = this.#kernel
    const { name, from, to, off } = step
    if (samePlugin(from, to) && !this.#outdated(from, now)) return await this.#stay(step, now)
    const needing = dependantsOf(name, now)
    const others = ({ order }: Loaded): string[] => order.map(({ manifest }) => manifest.name)
      .filter((one) => needing.has(one) && !names.includes(one))
    const cold = before === undefined
      ? 'svc.yaml could not be applied before this change'
      : to !== undefined && now.stale.includes(name)
        ? STALE
        : isClusterPlugin(from ?? to)
          ? 'it starts before the other plugins'
          : restartReason({
              name, from: from?.manifest, to: to?.manifest, named: this.#named,
              others: started.filter(({ plugin: { manifest } }) => manifest.name !== name)
                .map(({ plugin: { manifest }, kept }) => ({ ...manifest, consumesOptional: kept })),
              before: others(before), after: others(now)
            })
    if (cold !== null) return { why: restartSince(cold) }
    const wasOff = findDisabled(present, name)
    const earlier = adopted.get(name)
    await this.#replace(from, to, off, now.config)
    const settings = Object.keys((to ?? from)?.manifest.settings ?? {})
    return {
      why: null, taken: [formatPath(['plugins', name]), ...settings.map((key) => formatPath([key]))],
      back: async () => { await this.#replace(to, from, wasOff, earlier) }
    }
  }

  /** Whether a plugin that reloads its settings runs with others than those of svc.yaml. */
  #outdated (plugin: Plugin | undefined, { config }: Loaded): boolean {
    if (plugin?.manifest.reloads !== true) return false
    const { adopted, options } = this.#kernel
    const applied = ownSettings(plugin.manifest, adopted.get(plugin.manifest.name) ?? options)
    return !isDeepStrictEqual(applied, ownSettings(plugin.manifest, config))
  }

  /** Handles a plugin that already matches svc.yaml, or that must stay off, e.g. because of a requirement. */
  async #stay ({ name, from, off }: PluginChange, now: Loaded): Promise<Stepped> {
    const { present } = this.#kernel
    if (from !== undefined && now.stale.includes(name)) return { why: restartSince(STALE) }
    const taken = [formatPath(['plugins', name, 'enabled'])]
    if (from !== undefined || off === undefined) return { why: null, taken }
    if (findDisabled(present, name)?.message !== off.message) {
      present.off = [...present.off.filter((one) => one.plugin.manifest.name !== name), off]
      await this.#show()
    }
    return this.#enabled(name) ? { why: off.message } : { why: null, taken }
  }

  /** Stops `from` and starts `to`; if `to` fails to start, restarts `from` with its earlier settings. */
  async #replace (
    from: Plugin | undefined, to: Plugin | undefined, off: OffPlugin | undefined,
    config: ResolvedConfig | undefined
  ): Promise<void> {
    const earlier = this.#kernel.adopted.get((from ?? to)!.manifest.name)
    if (from !== undefined) await this.#stop(from, off)
    if (to === undefined) return
    try {
      await this.#start(to, config)
    } catch (error) {
      if (from !== undefined) await this.#start(from, earlier)
      throw error
    }
  }

  async #stop (plugin: Plugin, off: OffPlugin | undefined): Promise<void> {
    const { present, started } = this.#kernel
    const { name } = plugin.manifest
    const message = off?.message ?? `The plugin "${name}" is being replaced.`
    const running = started.splice(started.findIndex((one) => one.plugin === plugin), 1)[0]!
    present.on = present.on.filter((one) => one !== plugin)
    present.off = [...present.off, off ?? { plugin, message }]
    await this.#show()
    await stopOne(running, this.#kernel, () => kernelError('plugin_disabled', message, { plugin: name }))
  }

  /** Starts a plugin with its settings in `config`; undefined means the settings read at boot. */
  async #start (plugin: Plugin, config: ResolvedConfig | undefined): Promise<void> {
    const { present, started, adopted } = this.#kernel
    const { name } = plugin.manifest
    const { on, off } = present
    const earlier = adopted.get(name)
    adopt(adopted, name, config)
    try {
      const { problems } = await startPlugins([plugin], this.#kernel)
      if (problems.length > 0) throw new BootError(problems)
      present.on = [...on, plugin]
      present.off = off.filter((one) => one.plugin.manifest.name !== name)
      await this.#show()
    } catch (error) {
      const at = started.findIndex((one) => one.plugin === plugin)
      const running = at < 0 ? undefined : started.splice(at, 1)[0]
      await running?.dispose()
      Object.assign(present, { on, off })
      adopt(adopted, name, earlier)
      throw failed([name], error)
    }
  }

  /** Rereads svc.yaml and its plugins. Throws `plugin_failed` with all problems. */
  async #load (names: readonly string[]): Promise<Loaded> {
    try { return await this.#kernel.options.reload() } catch (error) { throw failed(names, error) }
  }
}

/** Raises one conflict for all current faults of installed plugins, and emits an event for each new one. */
export function changeReporter (
  { health, bus, nodeId }: { health: Health, bus: Bus, nodeId: string }
): (changed: Installation['changed']) => void {
  let told: ReadonlySet<string> = new Set()
  return (changed) => {
    if (changed.length === 0) health.clear('plugin_changed')
    else health.raise('plugin_changed', changed.map(({ message }) => message).join(' '))
    for (const { name, file, message } of changed) {
      if (!told.has(message)) bus.emit('kernel', 'PluginChanged', { nodeId, plugin: name, file })
    }
    told = new Set(changed.map(({ message }) => message))
  }
}

const STALE = 'its files have changed since this node loaded them'
const restartSince = (cold: string): string => `A restart is needed: ${cold}.`

function adopt (adopted: Assembly['adopted'], name: string, config: ResolvedConfig | undefined): void {
  if (config === undefined) adopted.delete(name)
  else adopted.set(name, config)
}

function failed (plugins: readonly string[], error: unknown): Error {
  const problems = error instanceof BootError ? error.problems : [(error as Error).message]
  const named = plugins[0] === undefined ? 'The node and ' : `The plugin "${plugins[0]}" and `
  return kernelError('plugin_failed', `${problems.join('; ')}. ${named}svc.yaml are unchanged.`,
    { plugin: plugins[0] ?? null, problems })
}

/** Plugins that svc.yaml enables, in start order, and the disabled ones. */
interface Arranged { readonly order: readonly Plugin[], readonly off: readonly OffPlugin[] }

/** A plugin as it runs now (`from`) and as svc.yaml requires it (`to`); undefined means off. */
interface PluginChange {
  readonly name: string
  readonly from: Plugin | undefined
  readonly to: Plugin | undefined
  /** Why the plugin is off; undefined if it is on. */
  readonly off: OffPlugin | undefined
}

function switchesPlugins ({ set }: ConfigChange): boolean {
  return Object.keys(set).some((path) => {
    const [top, , key = 'enabled'] = parsePath(path) ?? []
    return top === 'plugins' && key === 'enabled'
  })
}

/** Orders changes: stops before starts; requirements start before their dependants and stop after them. */
function inOrder (names: readonly string[], on: readonly Plugin[], now: Arranged): PluginChange[] {
  const steps = names.map((name) => ({
    name, from: runningOf(on, name), to: runningOf(now.order, name), off: findDisabled(now, name)
  }))
  const stops = on.toReversed().flatMap((plugin) =>
    steps.filter(({ from, to }) => from === plugin && to === undefined))
  const starts = now.order.flatMap((plugin) => steps.filter(({ to }) => to === plugin))
  return [...stops, ...starts, ...steps.filter(({ from, to }) => from === undefined && to === undefined)]
}

/** Names of plugins that require this one, directly or indirectly. */
function dependantsOf (name: string, { order, off }: Arranged): Set<string> {
  const all = [...order, ...off.map(({ plugin }) => plugin)].map(({ manifest }) => manifest)
  const byName = new Map(all.map((manifest) => [manifest.name, manifest]))
  return new Set([...byName.keys()].filter((one) => one !== name && transitive(one, byName).has(name)))
}

const runningOf = (plugins: readonly Plugin[], name: string): Plugin | undefined =>
  plugins.find(({ manifest }) => manifest.name === name)

const findDisabled =
  ({ off }: { readonly off: readonly OffPlugin[] }, name: string): OffPlugin | undefined =>
    off.find(({ plugin }) => plugin.manifest.name === name)

/** Compares `start`, since rereading svc.yaml creates new Plugin objects with the same `start` function. */
const samePlugin = (one: Plugin | undefined, other: Plugin | undefined): boolean =>
  one?.start === other?.start
