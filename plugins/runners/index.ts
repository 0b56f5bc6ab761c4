import { definePlugin, type Plugin } from '../../kernel/index.js'
import type { MachineParts } from './assembly.js'
import { manifest } from './manifest.js'

/** The plugin on a machine, by default this one. */
export function createRunners (machine?: MachineParts): Plugin {
  return definePlugin(manifest, async (ctx) => {
    // Imported only at start, because the CLI reads manifests and must not load YAML and the schema compiler.
    const { start } = await import('./start.js')
    return start(ctx, machine)
  })
}

export default createRunners()
