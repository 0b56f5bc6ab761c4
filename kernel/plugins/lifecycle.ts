import avvio from 'avvio'
import { createContext } from './context.js'
import { neededBy } from './graph.js'
import { run } from './running.js'
import type { Plugin } from '../api/plugin.js'
import type { Assembly } from './assembly.js'
import type { LiveContext } from './context.js'

/** Longest `start` of a plugin, ms; a dozen nodes may start at once. Slow work belongs in the background. */
const START_LIMIT_MS = 30_000

export interface Started {
  /** One sentence for each failed plugin. */
  readonly problems: readonly string[]
  /** Undoes their effects in reverse order. Safe to call twice. */
  close (): Promise<void>
}

/**
 * Starts plugins in order; avvio enforces the time limit and closes in reverse. After a failure, plugins that
 * do not need the failed one still start. A failed one leaves no effects; `kernel.started` has the others.
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
      // The time limit passed before the start returned.
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
