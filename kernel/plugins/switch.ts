import { BootError, kernelError } from '../api/errors.js'
import { formatPath } from '../config/paths.js'
import { namedBy } from '../state/source.js'
import { coldReason } from './cold.js'
import { startPlugins } from './lifecycle.js'
import { stopOne } from './running.js'
import type { Caller, Plugin } from '../api/plugin.js'
import type { Assembly } from './assembly.js'
import type { OffPlugin } from './present.js'
import type { Setup } from './load.js'

/** svc.yaml as it is now, with the plugins that it names. */
export type Loaded = Pick<Setup, 'order' | 'off' | 'config' | 'owners' | 'authorities' | 'changed' | 'stale'>

/** The answer to a switch of a plugin. */
export interface Switched {
  revision: string
  /** Whether svc.yaml says something that only a restart brings. */
  restart_needed: boolean
  /** Whether the plugin now runs, or does not, as was asked. */
  in_effect: boolean
  /** Why not. */
  why: string | null
}

/** Switches plugins in svc.yaml and, where that can be done, at once; one after the other. */
export class PluginSwitch {
  readonly #kernel: Assembly
  /** Puts the routes of what runs now on the server. */
  readonly #show: () => Promise<void>
  readonly #named: ReadonlySet<string>
  #last: Promise<unknown> = Promise.resolve()

  constructor (kernel: Assembly, show: () => Promise<void>) {
    this.#kernel = kernel
    this.#show = show
    this.#named = new Set([...namedBy(kernel, 'stateWhereabouts'), ...namedBy(kernel, 'stateReadings')])
  }

  /**
   * Switches a plugin that svc.yaml or svc itself brings. What fails leaves file and node as they were.
   * Throws `not_found`, `plugin_failed`, `missing_grant`, `config_changed`.
   */
  async turn (name: string, enabled: boolean, caller: Caller): Promise<Switched> {
    const turned = this.#last.then(async () => await this.#turn(name, enabled, caller))
    this.#last = turned.catch(() => {})
    return await turned
  }

  async #turn (name: string, enabled: boolean, caller: Caller): Promise<Switched> {
    const { config, present, bus, health, options } = this.#kernel
    const before = await this.#load(name)
    if (before.order.every((one) => one.manifest.name !== name) &&
      before.off.every(({ plugin }) => plugin.manifest.name !== name)) {
      if (!enabled && await this.#forget(name, before)) {
        const { revision, restart_needed } = config.read()
        return { revision, restart_needed, in_effect: true, why: null }
      }
      throw kernelError('not_found', `There is no plugin "${name}"; GET /v1/plugins lists them.`)
    }
    config.know(before.owners, [...before.authorities])
    // Enabled is the default; written out it would demand, for the boot, that nothing it needs is off.
    const path = formatPath(['plugins', name, 'enabled'])
    const written = config.change({ [path]: enabled ? null : false }, caller)
    const was = present.on.find(({ manifest }) => manifest.name === name)
    let why: string | null
    try {
      why = await this.#follow(name, was, before)
    } catch (error) {
      written.undo()
      throw error
    }
    const is = present.on.find(({ manifest }) => manifest.name === name)
    if (config.pending()) health.raise('restart_needed', '')
    else health.clear('restart_needed')
    if (written.changed || is !== was) {
      bus.emit('kernel', enabled ? 'PluginEnabled' : 'PluginDisabled',
        { nodeId: options.node.nodeId, plugin: name })
    }
    return { revision: written.revision, restart_needed: config.pending(), in_effect: why === null, why }
  }

  /** Drops a plugin that is off and that svc.yaml names no more; false where there is none. */
  async #forget (name: string, now: Loaded): Promise<boolean> {
    const { present, config } = this.#kernel
    if (!present.off.some(({ plugin }) => plugin.manifest.name === name)) return false
    present.change(present.on, present.off.filter(({ plugin }) => plugin.manifest.name !== name))
    await this.#show()
    config.took([formatPath(['plugins', name])], now.config)
    return true
  }

  /** Does what the file says now of a plugin; what keeps it from that without a restart, or null. */
  async #follow (name: string, was: Plugin | undefined, before: Loaded): Promise<string | null> {
    const { present, config, changes } = this.#kernel
    const now = await this.#load(name)
    this.#tellChanged(name, now)
    const to = now.order.find(({ manifest }) => manifest.name === name)
    const off = now.off.find(({ plugin }) => plugin.manifest.name === name)
    if (samePlugin(was, to)) {
      // It may be off for what it requires, whatever is asked for.
      const wanted = config.value(['plugins', name, 'enabled']) !== false
      return was === undefined && wanted ? off?.message ?? null : null
    }
    const cold = to !== undefined && now.stale.includes(name)
      ? 'its files are not those that this node has loaded'
      : coldReason({
          name, from: was?.manifest, to: to?.manifest, named: this.#named,
          others: present.manifests.filter((manifest) => manifest.name !== name),
          before: namesOf(before), after: namesOf(now)
        })
    if (cold !== null) return `A restart is needed, since ${cold}.`
    if (was !== undefined) await this.#stop(was, off)
    if (to !== undefined) {
      try {
        await this.#start(to, now)
      } catch (error) {
        // Its settings are still those with which it has run.
        if (was !== undefined) await this.#start(was)
        throw error
      }
    }
    const settings = Object.keys((to ?? was)?.manifest.settings ?? {})
    config.took([formatPath(['plugins', name]), ...settings.map((key) => formatPath([key]))], now.config)
    changes.notify()
    return null
  }

  /** Files that were changed are told of when they would have been loaded. */
  #tellChanged (name: string, { changed }: Loaded): void {
    const { health, bus, options } = this.#kernel
    if (changed.length === 0) health.clear('plugin_changed')
    for (const { message } of changed) health.raise('plugin_changed', message)
    const file = changed.find((one) => one.name === name)?.file
    if (file === undefined) return
    bus.emit('kernel', 'PluginChanged', { nodeId: options.node.nodeId, plugin: name, file })
  }

  async #stop (plugin: Plugin, off: OffPlugin | undefined): Promise<void> {
    const { present, started } = this.#kernel
    const { name } = plugin.manifest
    const message = off?.message ?? `The plugin "${name}" is being replaced.`
    const running = started.splice(started.findIndex((one) => one.plugin === plugin), 1)[0]!
    present.change(present.on.filter((one) => one !== plugin),
      [...present.off, off ?? { plugin, message }])
    await this.#show()
    await stopOne(running, this.#kernel, () => kernelError('plugin_disabled', message, { plugin: name }))
  }

  async #start (plugin: Plugin, loaded?: Loaded): Promise<void> {
    const { present, started, adopted } = this.#kernel
    const { name } = plugin.manifest
    const { on, off } = present
    const earlier = adopted.get(name)
    if (loaded !== undefined) adopted.set(name, loaded.config)
    try {
      const { problems } = await startPlugins([plugin], this.#kernel)
      if (problems.length > 0) throw new BootError(problems)
      present.change([...on, plugin], off.filter((one) => one.plugin.manifest.name !== name))
      await this.#show()
    } catch (error) {
      const at = started.findIndex((one) => one.plugin === plugin)
      const running = at < 0 ? undefined : started.splice(at, 1)[0]
      await running?.dispose()
      present.change(on, off)
      if (earlier === undefined) adopted.delete(name)
      else adopted.set(name, earlier)
      throw failed(name, error)
    }
  }

  /** Reads svc.yaml and what it names anew. Throws `plugin_failed` with all that is wrong. */
  async #load (name: string): Promise<Loaded> {
    try {
      return await this.#kernel.options.reload()
    } catch (error) {
      throw failed(name, error)
    }
  }
}

const namesOf = ({ order }: Loaded): string[] => order.map(({ manifest }) => manifest.name)

/** The copies that are made of a plugin when it is read share its start. */
const samePlugin = (one: Plugin | undefined, other: Plugin | undefined): boolean =>
  one?.start === other?.start

function failed (plugin: string, error: unknown): Error {
  const problems = error instanceof BootError ? error.problems : [(error as Error).message]
  return kernelError('plugin_failed',
    `${problems.join('; ')}. The plugin "${plugin}" and svc.yaml are as they were.`, { plugin, problems })
}
