import { definePlugin, type Plugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import type { StagingParts } from './manager/start.js'

export function createStaging (parts: StagingParts): Plugin {
  return definePlugin(manifest, async (ctx) => {
    // Load the code only at start: the command line imports every plugin just for its manifest.
    const { start } = await import('./manager/start.js')
    return start(ctx, parts)
  })
}

const GIB = 1024 ** 3

export default createStaging({ env: process.env, random: Math.random, headroomBytes: 10 * GIB })
