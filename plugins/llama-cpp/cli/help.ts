import { beyond } from '../../runners/service.js'
import { GGUF_ENGINE, LLAMA_SERVER } from '../engine.js'
import { offerEngine } from './offer.js'
import type { EngineHelp } from '../../../kernel/cli/index.js'

/** GET /state, as far as it says which programs of engines the nodes have: null for one that is missing. */
interface SeenPrograms {
  nodeResources?: Record<string, { engines?: Record<string, { from?: string } | null> } | null>
}

export default {
  lacksProgram (card, { nodeResources = {} }: SeenPrograms) {
    const onLibrary = beyond(LLAMA_SERVER.otherwise, card) === null
    const nodes = Object.values(nodeResources)
    return nodes.length > 0 && nodes.every((node) => {
      const driver = node?.engines?.[GGUF_ENGINE]
      return driver === null || (driver?.from === 'library' && !onLibrary)
    })
  },
  offer: offerEngine
} satisfies EngineHelp
