// Imported when a node looks for others. A file of our own, since a bundled CommonJS package that is imported
// dynamically has no named exports.
export { Bonjour } from 'bonjour-service'
