import type { ModelCard } from '../api/engine.js'
import type { VerbContext } from './verb.js'

type Seen = Pick<ModelCard, 'family' | 'languages' | 'backends' | 'files'>

/** Functions through which an engine helps verbs with its models. */
export interface EngineHelp {
  /** Name of the additional software that a model needs; undefined if it needs none. */
  hint? (card: Seen): string | undefined
  /** Whether GET /state shows that every node lacks the program that the model needs. */
  lacksProgram? (card: Seen, state: object): boolean
  /** The programs of the engine on this machine, in order, and why one cannot be used. */
  programs? (ctx: VerbContext): Promise<{ words: string, path: string, problem: string | null }[]>
  /** Offers to install the program that the engine needs. True if it is installed afterwards. */
  offer? (ctx: VerbContext, yes: boolean): Promise<boolean>
}

/** The `EngineHelp` of an engine, found by the name of the engine or its program; empty if it has none. */
export async function engineHelp (
  { plugins }: Pick<VerbContext, 'plugins'>, name: string
): Promise<EngineHelp> {
  const engines = (await plugins()).flatMap(({ manifest: { engines = {} } }) => Object.entries(engines))
  const found = engines.find(([engine, { program }]) => engine === name || program?.builds === name)
  return ((await found?.[1].help?.())?.default ?? {}) as EngineHelp
}
