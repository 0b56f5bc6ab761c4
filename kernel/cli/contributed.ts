import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CliError } from './errors.js'
import type { Plugin } from '../api/plugin.js'
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
  const plugins = await pluginsOf(ctx)
  return await Promise.all(plugins.flatMap(({ manifest }) => Object.values(manifest[kind] ?? {}))
    .map(async ({ load }) => {
      const part = (await load()).default as { run (given: CheckContext): Promise<T> }
      return await part.run({ state, look })
    }))
}

/** Only a file that names a module is read as svc.yaml is: that takes a parser and a compiler, 40 ms. */
async function pluginsOf (ctx: VerbContext): Promise<readonly Plugin[]> {
  const path = ctx.io.env['SVC_CONFIG'] || join(ctx.home, 'svc.yaml')
  if (!textOf(path).includes('module')) return await ctx.plugins()
  const { installationOf } = await import('./installed.js')
  return (await installationOf(ctx)).plugins
}

function textOf (path: string): string {
  try { return readFileSync(path, 'utf8') } catch { return '' }
}
