import avvio from 'avvio'
import { createContext, type LiveContext } from './context.js'
import { neededBy } from './graph.js'
import { run } from './running.js'
import type { Plugin } from '../api/plugin.js'
import type { Assembly } from './assembly.js'

/** Time limit in ms for a plugin's `start`, long enough for a dozen nodes that start at the same time. */
const START_LIMIT_MS = 30_000

export interface Started {
  /** Problems of failed plugins, one sentence each. */
  readonly problems: readonly string[]
  /** Undoes the effects of all started plugins in reverse order. Safe to call twice. */
  close (): Promise<void>
}

/**
 * Starts plugins in order; avvio enforces the time limit and closes in reverse. If one fails, plugins that do
 * not need it still start. Failed plugins are undone; `kernel.started` lists those that run.
 */
export async function startPlugins (plugins: readonly Plugin[], kernel: Assembly): Promise<Started> {
  const limitMs = kernel.options.startLimitMs ?? START_LIMIT_MS
  const problems: string[] = []
  const failed = new Set<string>()
  const line = avvio(null, { autostart: false, timeout: limitMs })
  for (const plugin of plugins) {
    const { name } = plugin.manifest
    let live: LiveContext | undefined
    line.use(async () => {
      if (neededBy(plugin.manifest).some((need) => failed.has(need))) {
        failed.add(name)
        return
      }
      live = createContext(plugin, kernel)
      const running = await run(plugin, live, kernel)
      // `start` returned only after its time limit: undo its effects.
      if (failed.has(name)) return await running.dispose()
      kernel.started.push(running)
      line.onClose((_, done) => { void running.dispose().then(() => { done() }) })
    }).after((error: Error | null | undefined) => {
      if (error === null || error === undefined) return
      failed.add(name)
      problems.push(`plugin "${name}" failed to start: ${startFailure(error, limitMs)}`)
      void live?.dispose()
    })
  }
  line.start()
  await line.ready()
  return { problems, close: async () => { await new Promise((resolve) => { line.close(resolve) }) } }
}

function startFailure (error: Error, limitMs: number): string {
  if ((error as { code?: string }).code !== 'AVV_ERR_PLUGIN_EXEC_TIMEOUT') return error.message
  return `start() took over ${limitMs / 1000} seconds; move slow work into the background`
}
