import type { ModelCard } from '../api/engine.js'
import type { VerbContext } from './verb.js'

type Seen = Pick<ModelCard, 'family' | 'languages' | 'backends' | 'files'>

/** Answers of an engine for verbs about its models. */
export interface EngineHelp {
  /** The software that a model needs besides; undefined: none. */
  hint? (card: Seen): string | undefined
  /** Whether every node says, in GET /state, that it has not got the program that the model needs. */
  lacksProgram? (card: Seen, state: object): boolean
  /** Offers to bring that program. True when it is there now. */
  offer? (ctx: VerbContext, yes: boolean): Promise<boolean>
}

/** The help of an engine, by its name or by that of the builds of its program; empty where it has none. */
export async function engineHelp (
  { plugins }: Pick<VerbContext, 'plugins'>, name: string
): Promise<EngineHelp> {
  const engines = (await plugins()).flatMap(({ manifest: { engines = {} } }) => Object.entries(engines))
  const found = engines.find(([engine, { program }]) => engine === name || program?.builds === name)
  return ((await found?.[1].help?.())?.default ?? {}) as EngineHelp
}
