import type { Bus } from './events.js'
import type { Health } from './health.js'
import type { Installation } from './installation.js'

/** Reports installed plugins with unaccepted file changes: one conflict for all, and one event per fault. */
export class ChangedPlugins {
  readonly #health: Health
  readonly #bus: Bus
  readonly #nodeId: string
  #told: ReadonlySet<string> = new Set()

  constructor (parts: { health: Health, bus: Bus, nodeId: string }) {
    this.#health = parts.health
    this.#bus = parts.bus
    this.#nodeId = parts.nodeId
  }

  /** Raises the conflict for all current faults, and emits an event for each new one. */
  tell (changed: Installation['changed']): void {
    if (changed.length === 0) this.#health.clear('plugin_changed')
    else this.#health.raise('plugin_changed', changed.map(({ message }) => message).join(' '))
    for (const { name, file, message } of changed) {
      if (this.#told.has(message)) continue
      this.#bus.emit('kernel', 'PluginChanged', { nodeId: this.#nodeId, plugin: name, file })
    }
    this.#told = new Set(changed.map(({ message }) => message))
  }
}
