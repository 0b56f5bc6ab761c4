/** What other plugins may use of this one. */
export { supportOf } from './engine/support.js'
export { Mp3Time } from './mp3-frames.js'
