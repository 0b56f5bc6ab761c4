import { getIn } from '../config/paths.js'
import type { VerbContext } from './verb.js'

/** Value of a setting according to svc.yaml and this process's environment variables. */
export async function readSetting (ctx: VerbContext, key: string): Promise<unknown> {
  // Imported on demand, since most verbs need no settings and the YAML parser is slow to load.
  const [{ installationOf }, { resolveConfig }] =
    await Promise.all([import('./installed.js'), import('../config/resolve.js')])
  const installation = await installationOf(ctx)
  const { config } = resolveConfig(installation.raw, { ...installation, env: ctx.io.env })
  const [top, ...rest] = key.split('.')
  // `settings` returns secrets as they are; `entries` masks them.
  return getIn(config.settings(top!), rest)
}
