export { Mp3Time } from './engine/mp3-duration.js'
