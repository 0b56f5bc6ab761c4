import { kernelKeys } from '../config/kernel-settings.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { builtIn } from './builtin.js'
import { exitCodeMeanings } from './errors.js'
import { installationOf } from './installed.js'
import type { DeclarationSet, Manifest } from '../api/plugin.js'
import type { VerbContext } from './verb.js'

export function declaredBy (plugins: readonly Manifest[]): DeclarationSet {
  const verbs = builtIn.filter((verb) => verb.hidden !== true)
  return {
    manifests: [kernelManifest, ...plugins], settings: kernelKeys,
    verbs: Object.fromEntries(verbs.map((verb) => [verb.name, verb])), exitCodes: exitCodeMeanings
  }
}

/** Declarations of the kernel and this home's plugins, without those that cannot be loaded. */
export async function readDeclared (ctx: VerbContext): Promise<DeclarationSet> {
  const { plugins } = await installationOf(ctx)
  return declaredBy(plugins.map(({ manifest }) => manifest))
}
