import { showSpan as showSeconds } from '../../../kernel/index.js'

export { plain, showBytes } from '../../../kernel/index.js'

/** A span of milliseconds in at most two units, rounded up to seconds: `9s`, `1h12m`, `3d`. */
export const showSpan = (ms: number): string => showSeconds(Math.ceil(ms / 1000))
