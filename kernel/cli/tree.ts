import type { Manifest, VerbDecl } from '../api/plugin.js'

/** A verb as the command line knows it. */
export interface KnownVerb extends VerbDecl {
  /** One word, or two for a verb in a group: `token create`. */
  readonly name: string
  /** The plugin that declares it, or `kernel`. */
  readonly owner: string
  /** Leaves options it does not know to the verb, after its arguments. */
  readonly open?: boolean
  /** Left out of help and completion. */
  readonly hidden?: boolean
}

/** What a group of verbs is about; a group is what two-word verbs share as their first word. */
export type Groups = Readonly<Record<string, string>>

/** All verbs, built-in ones first. Throws when two have one name, or one is also a group. */
export function collectVerbs (builtIn: readonly KnownVerb[], plugins: readonly Manifest[]): KnownVerb[] {
  const added = plugins.flatMap((manifest) => Object.entries(manifest.verbs ?? {}).map(
    ([name, decl]) => ({ ...decl, name, owner: manifest.name })))
  const all = [...builtIn, ...added]
  const owners = new Map<string, string>()
  for (const { name, owner } of all) {
    const first = owners.get(name) ?? all.find((v) => v.name.startsWith(`${name} `))?.owner
    if (first !== undefined) {
      throw new Error(`the verb "${name}" is declared by both "${first}" and "${owner}"`)
    }
    owners.set(name, owner)
  }
  return all
}

/** The first words: verbs, and groups of verbs. */
export function topNames (verbs: readonly KnownVerb[]): string[] {
  return [...new Set(verbs.map((verb) => verb.name.split(' ')[0]!))]
}

/** The verbs of a group. */
export function inGroup (verbs: readonly KnownVerb[], group: string): KnownVerb[] {
  return verbs.filter((verb) => verb.name.startsWith(`${group} `))
}

/** The long flags of an option in commander's notation: `-o, --output <file>` gives `--output`. */
export function longFlag (flags: string): string | undefined { return /--[a-z][a-z0-9-]*/.exec(flags)?.[0] }

/** True when the option needs a value after it. */
export function takesValue (flags: string): boolean { return flags.includes('<') }
