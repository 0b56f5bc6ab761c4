import { definePlugin } from '../../kernel/index.js'
import type { Plugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import type { StagingParts } from './manager/start.js'

/** The plugin on given parts of the machine. */
export function createStaging (parts: StagingParts): Plugin {
  return definePlugin(manifest, async (ctx) => {
    // Not before it starts: the command line reads the manifests of all plugins, and this brings much along.
    const { start } = await import('./manager/start.js')
    return start(ctx, parts)
  })
}

const GIB = 1024 ** 3

/** Keeps 10 GiB free; only tests have less, by a variable nobody else is to set. */
function headroomBytes (text: string | undefined): number {
  return text !== undefined && /^\d{1,20}$/.test(text) ? Number(text) : 10 * GIB
}

export default createStaging({
  env: process.env,
  random: Math.random,
  headroomBytes: headroomBytes(process.env['SVC_TEST_HEADROOM_BYTES'])
})
