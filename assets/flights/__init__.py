"""Flights that left New York City in 2013, turned from a table of outcomes into the feed of changes it once was."""

from assets.flights.answers import Answers, answers_at
from assets.flights.feed import FlightsFeed
from assets.flights.source import FlightsSource, load_source

__all__ = ["Answers", "FlightsFeed", "FlightsSource", "answers_at", "load_source"]
