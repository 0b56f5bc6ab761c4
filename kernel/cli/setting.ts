import type { VerbContext } from './verb.js'

/** The value of a setting as svc.yaml and the variables of this run have it. */
export async function readSetting (ctx: VerbContext, key: string): Promise<unknown> {
  // Most verbs need no settings, and their parser takes longer to load than the rest.
  const [{ installationOf }, { resolveConfig }] =
    await Promise.all([import('./installed.js'), import('../config/resolve.js')])
  const installation = await installationOf(ctx)
  const { config } = resolveConfig(installation.raw, { ...installation, env: ctx.io.env })
  return config.entries(key).find(({ path }) => path === key)?.value
}
