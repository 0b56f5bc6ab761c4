import type { ModelCard } from '../api/engine.js'
import type { VerbContext } from './verb.js'

type Seen = Pick<ModelCard, 'family' | 'languages' | 'backends' | 'files'>

/** Answers of an engine for verbs about its models. */
export interface EngineHelp {
  /** The additional software that a model needs; undefined: none. */
  hint? (card: Seen): string | undefined
  /** Whether every node reports, in GET /state, that it lacks the program that the model needs. */
  lacksProgram? (card: Seen, state: object): boolean
  /** Offers to install that program. True if it is installed now. */
  offer? (ctx: VerbContext, yes: boolean): Promise<boolean>
}

/** The help of an engine, by its name or by that of the builds of its program; empty if it has none. */
export async function engineHelp (
  { plugins }: Pick<VerbContext, 'plugins'>, name: string
): Promise<EngineHelp> {
  const engines = (await plugins()).flatMap(({ manifest: { engines = {} } }) => Object.entries(engines))
  const found = engines.find(([engine, { program }]) => engine === name || program?.builds === name)
  return ((await found?.[1].help?.())?.default ?? {}) as EngineHelp
}
