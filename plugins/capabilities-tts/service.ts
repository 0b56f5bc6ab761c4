/** What other plugins may use of this one: the words by which the engine says what it does with a request. */
export { supportOf } from './engine/support.js'
