export { eitherFailure, isAnthropic, openAiFailure } from './api/failures.js'
