import type { Manifest, VerbDecl } from './plugin.js'
import type { JsonSchema } from './schema.js'

/** What svc declares about itself: every word with a fixed meaning, setting, verb and route. */
export interface DeclarationSet {
  /** The kernel's manifest and those of the plugins. */
  readonly manifests: readonly Manifest[]
  readonly settings: Readonly<Record<string, JsonSchema>>
  readonly verbs: Readonly<Record<string, Omit<VerbDecl, 'load'>>>
  readonly exitCodes: readonly (readonly [status: number, meaning: string])[]
}
