import { whyLibraryCannot } from '../../runners/service.js'
import { GGUF_ENGINE, LLAMA_SERVER } from '../engine.js'
import { offerEngine } from './offer.js'
import type { EngineHelp } from '../../../kernel/cli/index.js'

/** The program of each engine by node, from GET /state; null if an engine's program is missing. */
type Seen = Record<string, { engines?: Record<string, { from?: string } | null> } | null>

export default {
  lacksProgram (card, { nodeResources = {} }: { nodeResources?: Seen }) {
    const onLibrary = whyLibraryCannot(LLAMA_SERVER.otherwise, card) === null
    const nodes = Object.values(nodeResources)
    return nodes.length > 0 && nodes.every((node) => {
      const driver = node?.engines?.[GGUF_ENGINE]
      return driver === null || (driver?.from === 'library' && !onLibrary)
    })
  },
  offer: offerEngine
} satisfies EngineHelp
