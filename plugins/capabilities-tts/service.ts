export { Mp3Time } from './engine/mp3-frames.js'
