import { isVerbError } from '../../kernel/cli/index.js'
import { beyond } from '../runners/service.js'
import { GGUF_ENGINE, LLAMA_SERVER } from './engine.js'
import type { ModelCard } from '../../kernel/index.js'
import type { VerbContext } from '../../kernel/cli/index.js'

/** GET /state, as far as it says which programs of engines the nodes have: null for one that is missing. */
export interface SeenPrograms {
  nodeResources?: Record<string, { engines?: Record<string, { from?: string } | null> } | null>
}

/** Whether every node says that it has not got the program that a GGUF model needs. */
export function nobodyRuns (
  card: Pick<ModelCard, 'backends' | 'files'>, { nodeResources = {} }: SeenPrograms
): boolean {
  const onLibrary = beyond(LLAMA_SERVER.otherwise, card) === null
  const nodes = Object.values(nodeResources)
  return nodes.length > 0 && nodes.every((node) => {
    const driver = node?.engines?.[GGUF_ENGINE]
    return driver === null || (driver?.from === 'library' && !onLibrary)
  })
}

/** For verbs: offers to bring the program of GGUF models; see there. True when it is there now. */
export async function offerEngine (ctx: VerbContext, yes: boolean): Promise<boolean> {
  const offer = await import('./cli/offer.js')
  return await offer.offerEngine(ctx, yes)
}

/** Longest time until a node has seen a new program, seconds. */
const SEEN_SECONDS = 15

/**
 * For verbs: does what needs the program of a model. Where that is refused because no node has it, offers to
 * bring it, and does it again. Throws what that throws, and VerbError.
 */
export async function withEngine<T> (ctx: VerbContext, yes: boolean, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isMissing(error) || !await offerEngine(ctx, yes)) throw error
  }
  return await ctx.retry({ seconds: SEEN_SECONDS, again: isMissing, onWait: () => {} }, work)
}

const isMissing = (error: unknown): boolean => isVerbError(error) && error.api?.reason === 'engine_missing'
