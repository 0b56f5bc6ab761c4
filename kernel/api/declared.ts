import type { Manifest, VerbDecl } from './plugin.js'
import type { JsonSchema } from './schema.js'

/** Everything that svc declares: names with a fixed meaning, settings, verbs and routes. */
export interface DeclarationSet {
  readonly manifests: readonly Manifest[]
  readonly settings: Readonly<Record<string, JsonSchema>>
  readonly verbs: Readonly<Record<string, Omit<VerbDecl, 'load'>>>
  readonly exitCodes: readonly (readonly [status: number, meaning: string])[]
}
