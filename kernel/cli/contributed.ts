import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CliError } from './errors.js'
import type { Installation } from '../plugins/installation.js'
import type { CheckContext } from './check.js'
import type { VerbContext } from './verb.js'

/** Runs what the plugins of this home declare as parts of `svc doctor` or `svc status`, in their order. */
export async function contributed<T> (
  ctx: VerbContext, kind: 'checks' | 'status', state: CheckContext['state']
): Promise<T[]> {
  const look: CheckContext['look'] = async <A>(path: string) => {
    try {
      return await ctx.client.json<A>(path)
    } catch (error) {
      if (error instanceof CliError && error.status !== undefined) return error
      throw error
    }
  }
  const { plugins } = await homePlugins(ctx)
  return await Promise.all(plugins.flatMap(({ manifest }) => Object.values(manifest[kind] ?? {}))
    .map(async ({ load }) => {
      const part = (await load()).default as { run (given: CheckContext): Promise<T> }
      return await part.run({ state, look })
    }))
}

/**
 * The plugins of a home, and what could not be loaded. Without a svc.yaml they are those that ship, and its
 * reader, which is slow to load, is not needed.
 */
export async function homePlugins (
  { home, io, plugins }: Pick<VerbContext, 'home' | 'io' | 'plugins'>, configFlag?: string
): Promise<Pick<Installation, 'plugins' | 'failures'>> {
  const bundled = await plugins()
  if (!existsSync(configFlag ?? (io.env['SVC_CONFIG'] || join(home, 'svc.yaml')))) {
    return { plugins: bundled.map((plugin) => ({ ...plugin, source: 'bundled' })), failures: [] }
  }
  const { readInstallation } = await import('../plugins/installation.js')
  return await readInstallation({ home, env: io.env, bundled, configFlag })
}

/** What of a home could not be loaded, one sentence each. */
export function failuresOf ({ failures }: Pick<Installation, 'failures'>): string[] {
  return failures.map(({ name, module, message }) => `plugins.${name}: cannot load ${module}: ${message}`)
}
