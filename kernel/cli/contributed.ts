import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CliError } from './errors.js'
import type { Manifest } from '../api/plugin.js'
import type { Installation } from '../plugins/installation.js'
import type { CheckContext } from './check.js'
import type { Client, Signing } from './client.js'
import type { CredentialHelper, VerbContext } from './verb.js'

/** Creates the `look` function of checks and tools, a GET that throws CliError if no answer comes. */
export function createGet (client: Pick<Client, 'json'>): CheckContext['look'] {
  return async <A>(path: string) => {
    try {
      return await client.json<A>(path)
    } catch (error) {
      if (error instanceof CliError && error.status !== undefined) return error
      throw error
    }
  }
}

/** Loads the module of a bundled verb for use by another verb. Throws CliError if there is none. */
export async function verbModule ({ plugins }: Pick<VerbContext, 'plugins'>, name: string): Promise<unknown> {
  const verb = (await plugins()).flatMap(({ manifest }) => manifest.verbs?.[name] ?? [])[0]
  if (verb === undefined) throw new CliError(1, `it needs \`svc ${name}\`, which no plugin here has`)
  return await verb.load()
}

/** The helper from the bundled plugins that signs a home's requests to a node; undefined if there is none. */
export async function credentialFor (
  plugins: VerbContext['plugins'], home: string, url: string
): Promise<{ helper: CredentialHelper, signing: Signing } | undefined> {
  const declared = (await plugins()).flatMap(({ manifest }) => Object.values(manifest.credentials ?? {}))
  for (const { load } of declared) {
    const helper = (await load()).default as CredentialHelper
    const signing = helper.signerAt(home, url)
    if (signing !== undefined) return { helper, signing }
  }
  return undefined
}

export async function homeManifests (ctx: Parameters<typeof homePlugins>[0]): Promise<Manifest[]> {
  return (await homePlugins(ctx)).plugins.map(({ manifest }) => manifest)
}

/**
 * The plugins of a home, and load failures. A home without svc.yaml has only the bundled plugins, so the YAML
 * parser is not loaded.
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

export function failuresOf ({ failures }: Pick<Installation, 'failures'>): string[] {
  return failures.map(({ name, module, message }) => `plugins.${name}: cannot load ${module}: ${message}`)
}
