// Imported when the first line is sent. A file of our own, since a bundled CommonJS package that is imported
// dynamically has no named exports.
export { Agent } from 'undici'
