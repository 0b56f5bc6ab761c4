import { getIn } from '../config/paths.js'
import type { VerbContext } from './verb.js'

/** The value of a setting by svc.yaml and the variables of this run. */
export async function readSetting (ctx: VerbContext, key: string): Promise<unknown> {
  // Most verbs need no settings, and their parser takes longer to load than the rest.
  const [{ installationOf }, { resolveConfig }] =
    await Promise.all([import('./installed.js'), import('../config/resolve.js')])
  const installation = await installationOf(ctx)
  const { config } = resolveConfig(installation.raw, { ...installation, env: ctx.io.env })
  const [top, ...rest] = key.split('.')
  // Not from `entries`, which mask secrets.
  return getIn(config.settings(top!), rest)
}
