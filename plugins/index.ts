import access from './access/index.js'
import capabilitiesTts from './capabilities-tts/index.js'
import runners from './runners/index.js'
import type { Plugin } from '../kernel/index.js'

/** The plugins that ship with svc: the only list of them. */
export const bundled: readonly Plugin[] = [access, runners, capabilitiesTts]
