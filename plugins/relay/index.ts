import { definePlugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'

/** The relay: a server that anyone can run, through which devices reach nodes from elsewhere. */
export default definePlugin(manifest, () => ({}))
